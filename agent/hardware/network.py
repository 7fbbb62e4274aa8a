"""Reads the node's network devices: their counters, their links, SR-IOV virtual functions with their max_tx_rates, and
the table of tracked connections."""

import os
import re
import socket
import struct
from collections.abc import Callable, Iterator, Mapping

from agent.hardware.kernel_files import list_directory, parse_file, parse_optional_file
from leadsman.plugin import HostRoots, NoData, Sample, counter, gauge

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
"""Maps each column to its family."""

RECEIVED_BYTES = COUNTERS[0]
SENT_BYTES = COUNTERS[8]


def parse(text: str) -> dict[str, tuple[int, ...]]:
    """Maps each device, but those IGNORED_DEVICES, to the 16 columns of its line."""
    lines = (line.rpartition(":") for line in text.splitlines()[2:])
    return {name.strip(): _counts(text) for name, _, text in lines if not IGNORED_DEVICES.fullmatch(name.strip())}


def collect_network(roots: HostRoots) -> Iterator[Sample]:
    if roots.own_network and roots.proc == "/proc":
        raise NoData("the agent's network namespace is not the node's, and the host's /proc is not mounted here")
    devices = parse_optional_file(f"{roots.proc}/1/net/dev", parse)
    for device, counts in (parse_file(f"{roots.proc}/net/dev", parse) if devices is None else devices).items():
        for column, family in COUNTERS.items():
            yield family(counts[column], device)


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
        path = f"{root}/{name}"
        yield UP((parse_optional_file(f"{path}/operstate", str.strip) or "unknown") == "up", name)
        speed = parse_optional_file(f"{path}/speed", parse_speed)
        if speed is not None:
            yield SPEED(speed, name)
        yield from _virtual_functions(name, f"{path}/device")


def physical_devices(roots: HostRoots) -> list[str]:
    """Returns the network devices with hardware behind them that are no virtual functions."""
    root = f"{roots.sys}/class/net"
    virtual = set(list_directory(f"{roots.sys}/devices/virtual/net"))  # One of each pod, which is not looked at.
    devices = {name: f"{root}/{name}/device" for name in list_directory(root) if name not in virtual}
    # The link of a virtual function is its physical function's.
    real = [name for name, at in devices.items() if os.path.exists(at) and not os.path.exists(f"{at}/physfn")]
    # Azure's accelerated networking: the function is a lower device of the synthetic one, which counts its bytes too.
    return [name for name in real if os.path.basename(os.path.realpath(f"{root}/{name}/master")) not in real]


def _virtual_functions(name: str, device: str) -> Iterator[Sample]:
    possible = parse_optional_file(f"{device}/sriov_totalvfs", int)
    if possible:
        enabled = parse_optional_file(f"{device}/sriov_numvfs", int) or 0
        yield VFS_POSSIBLE(possible, name)
        yield VFS_ENABLED(enabled, name)
        yield VFS_FREE(sum(bool(list_directory(f"{device}/virtfn{index}/net")) for index in range(enabled)), name)


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


# What a dump of rtnetlink says of SR-IOV virtual functions: the max_tx_rate of each.
#
# Sources: rtnetlink(7), include/uapi/linux/netlink.h, include/uapi/linux/if_link.h (IFLA_VFINFO_LIST, ifla_vf_rate).
# All integers are in the host's byte order.

RTM_NEWLINK, RTM_GETLINK = 16, 18
NLMSG_ERROR, NLMSG_DONE = 2, 3
_REQUEST_AND_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_IFLA_IFNAME, _IFLA_VFINFO_LIST, _IFLA_EXT_MASK = 3, 22, 29
_IFLA_VF_INFO, _IFLA_VF_TX_RATE, _IFLA_VF_RATE = 1, 3, 6
_RTEXT_FILTER_VF = 1
_TYPE_MASK = 0x3FFF  # without NLA_F_NESTED and NLA_F_NET_BYTEORDER
_HEADER, _LINK, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BxHiII"), struct.Struct("=HH")
_RATE, _OLD_RATE = struct.Struct("=III"), struct.Struct("=II")


class BadDump(ValueError):
    """The bytes are no dump of links, or the kernel refused it. Says where or why."""


def dump_request() -> bytes:
    """Asks for all links with their virtual functions."""
    body = _LINK.pack(0, 0, 0, 0, 0) + _ATTRIBUTE.pack(8, _IFLA_EXT_MASK) + struct.pack("=I", _RTEXT_FILTER_VF)
    return _HEADER.pack(_HEADER.size + len(body), RTM_GETLINK, _REQUEST_AND_DUMP, 1, 0) + body


def is_complete(dump: bytes) -> bool:
    """Tells whether the dump has its end, or an error in place of it. Raises BadDump."""
    return any(kind in (NLMSG_DONE, NLMSG_ERROR) for kind, _ in _walk(dump, _HEADER))


def physical_functions(dump: bytes) -> Iterator[tuple[str, list[int]]]:
    """Yields the devices that have virtual functions, each with their max_tx_rates in Mbit/s; 0: unlimited. Raises
    BadDump."""
    for kind, body in _walk(dump, _HEADER):
        try:
            if kind == NLMSG_ERROR:
                raise BadDump(f"the kernel refused the dump of links with errno {-struct.unpack_from('=i', body)[0]}")
            attributes = _attributes(body[_LINK.size :]) if kind == RTM_NEWLINK else {}
            if _IFLA_VFINFO_LIST in attributes:
                device = attributes[_IFLA_IFNAME].rstrip(b"\0").decode(errors="replace")
                yield device, list(_rates(attributes[_IFLA_VFINFO_LIST]))
        except (KeyError, struct.error) as error:
            raise BadDump(f"a link lacks its name, or has a value that is too short: {error}") from error


def _rates(listed: bytes) -> Iterator[int]:
    for kind, info in _walk(listed, _ATTRIBUTE):
        if kind & _TYPE_MASK == _IFLA_VF_INFO:
            attributes = _attributes(info)
            if _IFLA_VF_RATE in attributes:
                yield _RATE.unpack_from(attributes[_IFLA_VF_RATE])[2]
            elif _IFLA_VF_TX_RATE in attributes:  # before Linux 3.16
                yield _OLD_RATE.unpack_from(attributes[_IFLA_VF_TX_RATE])[1]


def _attributes(data: bytes) -> Mapping[int, bytes]:
    """Maps each attribute's type to its value; of those that occur twice the last."""
    return {kind & _TYPE_MASK: value for kind, value in _walk(data, _ATTRIBUTE)}


def _walk(data: bytes, header: struct.Struct) -> Iterator[tuple[int, bytes]]:
    """Yields type and content of one attribute after another, each aligned to 4 bytes; both headers begin with length
    and type."""
    start = 0
    while start < len(data):
        if len(data) - start < header.size:
            raise BadDump(f"{len(data) - start} bytes are left at {start}, fewer than a header has")
        length, kind = header.unpack_from(data, start)[:2]
        if not header.size <= length <= len(data) - start:
            raise BadDump(f"a part at {start} says that it has {length} bytes; {len(data) - start} are left")
        yield kind, data[start + header.size : start + length]
        start += (length + 3) & ~3


# Asks the kernel for all links of this network namespace: rtnetlink(7).

_TIMEOUT_SECONDS = 2.0
_LARGEST_PART_BYTES = 1 << 20
"""The most that one read takes. The kernel sends a link with 256 virtual functions, of some 350 bytes each, in one
message."""
_LARGEST_DUMP_BYTES = 16 << 20


def read_link_dump() -> bytes:
    """Returns all links of this network namespace, as rtnetlink dumps them. Raises OSError or BadDump."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as rtnetlink:
        rtnetlink.settimeout(_TIMEOUT_SECONDS)
        rtnetlink.send(dump_request())
        dump, part = bytearray(), b""
        while not is_complete(part):
            part = rtnetlink.recv(_LARGEST_PART_BYTES)
            dump += part
            if len(dump) > _LARGEST_DUMP_BYTES:
                raise OSError(f"the kernel's dump of links has more than {_LARGEST_DUMP_BYTES} bytes")
        return bytes(dump)


# The max_tx_rate of SR-IOV virtual functions, from rtnetlink: sysfs does not have it.
#
# It is seen in the network namespace of the physical function only, the host's: with the component hostnetwork. A node
# without such a device, or an agent in a namespace of its own, has no reading; the headroom of its links is unknown.

LIMITED_BITS = gauge(
    "network_sriov_limited_bits_per_second", "What the virtual functions that have a max_tx_rate may send.", "device"
)
LIMITED = gauge("network_sriov_vfs_limited", "Virtual functions that have a max_tx_rate.", "device")

_MBIT_BITS = 1_000_000


def collect_sriov(roots: HostRoots, read_dump: Callable[[], bytes] = read_link_dump) -> Iterator[Sample]:
    """Collects the limits. read_dump gives all links, whose dump grows with the pods: 1.5 KB each."""
    devices = (f"{roots.sys}/class/net/{name}/device" for name in physical_devices(roots))
    driver_knows_functions = any(os.path.exists(f"{device}/sriov_numvfs") for device in devices)
    functions = list(physical_functions(read_dump())) if driver_knows_functions else []
    if not functions:
        raise NoData("no device with SR-IOV virtual functions in this network namespace")
    for device, rates_mbit in functions:
        limited = [rate for rate in rates_mbit if rate]
        yield LIMITED_BITS(sum(limited) * _MBIT_BITS, device)
        yield LIMITED(len(limited), device)
