"""The max_tx_rate of SR-IOV virtual functions, from rtnetlink: sysfs does not have it.

It is seen in the network namespace of the physical function only, which is the host's: with the component hostnetwork.
A node without such a device, or an agent in a namespace of its own, has no reading, and then the headroom of its links
is unknown.
"""

import os
from collections.abc import Callable, Iterator

from agent.hardware.network import physical_devices
from agent.hardware.samples import HostRoots, NoData, Sample, gauge
from agent.hardware.vf_rates import physical_functions

LIMITED_BITS = gauge(
    "network_sriov_limited_bits_per_second", "What the virtual functions that have a max_tx_rate may send.", "device"
)
LIMITED = gauge("network_sriov_vfs_limited", "Virtual functions that have a max_tx_rate.", "device")

_MBIT_BITS = 1_000_000


class SriovCollector:
    """A collector. read_dump: gives a complete dump of links (`rtnetlink`), which grows with the pods: 1.5 KB each."""

    def __init__(self, read_dump: Callable[[], bytes]) -> None:
        self._read_dump = read_dump

    def __call__(self, roots: HostRoots) -> Iterator[Sample]:
        functions = list(physical_functions(self._read_dump())) if _may_have_functions(roots) else []
        if not functions:
            raise NoData("no device with SR-IOV virtual functions in this network namespace")
        for each in functions:
            limited = [rate for rate in each.rates_mbit if rate]
            yield LIMITED_BITS(sum(limited) * _MBIT_BITS, each.device)
            yield LIMITED(len(limited), each.device)


def _may_have_functions(roots: HostRoots) -> bool:
    """Whether the driver of some device knows virtual functions."""
    root = f"{roots.sys}/class/net"
    return any(os.path.exists(f"{root}/{name}/device/sriov_numvfs") for name in physical_devices(roots))
