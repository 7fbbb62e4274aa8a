"""Physical network links and their SR-IOV virtual functions, from /sys/class/net.

Sources: Documentation/ABI/testing/sysfs-class-net (speed, Mbit/s); sysfs-bus-pci (sriov_totalvfs, sriov_numvfs,
virtfnN, physfn).

A virtual function is free while its network device is still in the host's namespace: a pod that takes it takes
the device along. One bound to a user-space driver has no network device and is not counted as free.
"""

import os
from collections.abc import Iterator

from msgspec import Struct

from agent.hardware.kernel_files import list_directory, parse_optional_file
from agent.hardware.samples import HostRoots, NoData, Sample, gauge

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


def collect(roots: HostRoots) -> Iterator[Sample]:
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
