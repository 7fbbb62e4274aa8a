"""Network devices from /proc/net/dev. Source: proc_pid_net(5).

Read through process 1, so that a mounted host /proc gives the host's devices although the agent has a network
namespace of its own. Without that mount such an agent has no value: a pod's traffic is not the node's.

Left out: the ends of pods' links and purely virtual devices, whose number grows with the pods.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from agent.hardware.kernel_files import parse_file, parse_optional_file
from agent.hardware.samples import HostRoots, NoData, Sample, counter

IGNORED_DEVICES = re.compile(
    r"lo|(?:veth|cali|lxc|cilium_|tap|tun|tunl|ifb|dummy|docker|br-|cbr|cni|flannel|vxlan|kube-|nodelocaldns|virbr|azv).*"
    r"|(?:eni|gke)[0-9a-f]{11}"
)
"""eni + 11 hex digits: AWS VPC CNI; gke + 11: Google; azv: Azure."""

COUNTERS = {
    0: counter("network_receive_bytes_total", "Bytes received.", "device"),
    2: counter("network_receive_errs_total", "Receive errors.", "device"),
    3: counter("network_receive_drop_total", "Received packets dropped.", "device"),
    8: counter("network_transmit_bytes_total", "Bytes sent.", "device"),
    10: counter("network_transmit_errs_total", "Transmit errors.", "device"),
    11: counter("network_transmit_drop_total", "Packets dropped before they were sent.", "device"),
}
"""Column → family."""

RECEIVED_BYTES = COUNTERS[0]
SENT_BYTES = COUNTERS[8]


class NetworkDevice(Struct, frozen=True):
    """counts: the 16 columns of its line."""

    name: str
    counts: tuple[int, ...]


def parse(text: str) -> tuple[NetworkDevice, ...]:
    """All devices but those IGNORED_DEVICES."""
    lines = (line.rpartition(":") for line in text.splitlines()[2:])
    devices = ((name.strip(), counts) for name, _, counts in lines)
    return tuple(
        NetworkDevice(name, _counts(counts)) for name, counts in devices if not IGNORED_DEVICES.fullmatch(name)
    )


def collect(roots: HostRoots) -> Iterator[Sample]:
    if roots.own_network and roots.proc == "/proc":
        raise NoData("the agent's network namespace is not the node's, and the host's /proc is not mounted here")
    devices = parse_optional_file(f"{roots.proc}/1/net/dev", parse)
    for device in parse_file(f"{roots.proc}/net/dev", parse) if devices is None else devices:
        for column, family in COUNTERS.items():
            yield family(device.counts[column], device.name)


def _counts(text: str) -> tuple[int, ...]:
    counts = tuple(map(int, text.split()))
    if len(counts) != 16:
        raise ValueError(f"{len(counts)} columns, must be 16")
    return counts
