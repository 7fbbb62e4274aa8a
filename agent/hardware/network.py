"""The node's network devices: their counters, their links, and the table of tracked connections."""

import os
import re
from collections.abc import Iterator

from msgspec import Struct

from agent.hardware.kernel_files import list_directory, parse_file, parse_optional_file
from agent.hardware.samples import HostRoots, NoData, Sample, counter, gauge

# Network devices from /proc/net/dev. Source: proc_pid_net(5).
#
# Read through process 1, so that a mounted host /proc gives the host's devices although the agent has a network
# namespace of its own. Without that mount such an agent has no value: a pod's traffic is not the node's.
#
# Left out: the ends of pods' links and purely virtual devices, whose number grows with the pods.

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


def collect_network(roots: HostRoots) -> Iterator[Sample]:
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


# Physical network links and their SR-IOV virtual functions, from /sys/class/net.
#
# Sources: Documentation/ABI/testing/sysfs-class-net (speed, Mbit/s); sysfs-bus-pci (sriov_totalvfs, sriov_numvfs,
# virtfnN, physfn).
#
# A virtual function is free while its network device is still in the host's namespace: a pod that takes it takes
# the device along. One bound to a user-space driver has no network device and is not counted as free.

UP = gauge("network_up", "1 while the link's operational state is up.", "device")
SPEED = gauge("network_speed_bytes", "Link speed in bytes per second; no series while it is unknown.", "device")
VFS_POSSIBLE = gauge("network_sriov_vfs_possible", "Virtual functions the device can have.", "device")
VFS_ENABLED = gauge("network_sriov_vfs_enabled", "Virtual functions switched on.", "device")
VFS_FREE = gauge("network_sriov_vfs_free", "Virtual functions that no pod has taken.", "device")

_MBIT_BYTES = 125_000


class VirtualFunctions(Struct, frozen=True):
    """free ≤ enabled ≤ possible."""

    possible: int
    enabled: int
    free: int


class Link(Struct, frozen=True):
    """speed_bytes: per second; None: down, or virtual."""

    device: str
    up: bool
    speed_bytes: float | None
    vfs: VirtualFunctions | None


def parse_speed(text: str) -> float | None:
    """Mbit/s to bytes per second; None for -1, the driver does not know."""
    mbit = int(text)
    return mbit * _MBIT_BYTES if mbit > 0 else None


def collect_links(roots: HostRoots) -> Iterator[Sample]:
    root = f"{roots.sys}/class/net"
    devices = physical_devices(roots)
    if not devices:
        raise NoData(f"no physical network device in {root}")
    for name in devices:
        yield from _samples(_read(name, f"{root}/{name}"))


def physical_devices(roots: HostRoots) -> list[str]:
    """The network devices with hardware behind them that are no virtual functions."""
    root = f"{roots.sys}/class/net"
    virtual = set(list_directory(f"{roots.sys}/devices/virtual/net"))  # One of each pod, which is not looked at.
    return [name for name in list_directory(root) if name not in virtual and _is_physical(f"{root}/{name}/device")]


def _is_physical(device: str) -> bool:
    """Has hardware behind it, and is no virtual function itself (its link is its physical function's)."""
    return os.path.exists(device) and not os.path.exists(f"{device}/physfn")


def _read(name: str, path: str) -> Link:
    up = (parse_optional_file(f"{path}/operstate", str.strip) or "unknown") == "up"
    return Link(name, up, parse_optional_file(f"{path}/speed", parse_speed), _vfs(f"{path}/device"))


def _vfs(device: str) -> VirtualFunctions | None:
    possible = parse_optional_file(f"{device}/sriov_totalvfs", int)
    if not possible:
        return None
    enabled = parse_optional_file(f"{device}/sriov_numvfs", int) or 0
    free = sum(bool(list_directory(f"{device}/virtfn{index}/net")) for index in range(enabled))
    return VirtualFunctions(possible, enabled, free)


def _samples(link: Link) -> Iterator[Sample]:
    yield UP(link.up, link.device)
    if link.speed_bytes is not None:
        yield SPEED(link.speed_bytes, link.device)
    if link.vfs:
        yield VFS_POSSIBLE(link.vfs.possible, link.device)
        yield VFS_ENABLED(link.vfs.enabled, link.device)
        yield VFS_FREE(link.vfs.free, link.device)


# Connection tracking table. Source: docs.kernel.org/networking/nf_conntrack-sysctl.html
#
# The kernel answers for the reader's own network namespace, whichever /proc is read: the host's table only with
# hostNetwork. Elsewhere there is no value, because a pod's table is not the node's.

ENTRIES = gauge("nf_conntrack_entries", "Connections tracked.")
LIMIT = gauge("nf_conntrack_entries_limit", "Connections that can be tracked.")


def collect_conntrack(roots: HostRoots) -> Iterator[Sample]:
    if roots.own_network:
        raise NoData("the agent's network namespace is not the node's, whose table only hostNetwork shows")
    root = f"{roots.proc}/sys/net/netfilter"
    yield ENTRIES(parse_file(f"{root}/nf_conntrack_count", int))
    yield LIMIT(parse_file(f"{root}/nf_conntrack_max", int))
