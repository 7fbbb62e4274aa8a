"""Collects the I/O of whole disks, and how full the file systems are.

I/O is from psutil; the weighted time, which psutil lacks, is from /proc/diskstats.

Source: docs.kernel.org/admin-guide/iostats.html

Left out: partitions, loop, ram and zram, and mapped or network volumes (dm-, rbd, nbd), whose number
grows with the pods and whose I/O the disks below already count.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import psutil
from msgspec import Struct

from agent.hardware.kernel_files import parse_file, parse_optional_file, read_by_psutil
from leadsman.plugin import HostRoots, NoData, Sample, SensorFault, counter, gauge

WHOLE_DISK = re.compile(r"(?:sd|hd|vd|xvd)[a-z]+|nvme\d+n\d+|mmcblk\d+|dasd[a-z]+|pmem\d+")

READS = counter("disk_reads_completed_total", "Reads completed.", "device")
READ_BYTES = counter("disk_read_bytes_total", "Bytes read.", "device")
WRITES = counter("disk_writes_completed_total", "Writes completed.", "device")
WRITTEN_BYTES = counter("disk_written_bytes_total", "Bytes written.", "device")
IO_SECONDS = counter("disk_io_time_seconds_total", "Seconds with I/O under way.", "device")
WEIGHTED_SECONDS = counter("disk_io_time_weighted_seconds_total", "Seconds under way, summed over requests.", "device")


def parse_weighted(text: str) -> dict[str, float]:
    """Maps each whole disk to its seconds under way, summed over requests: the 11th number after its name."""
    lines = (line.split() for line in text.splitlines())
    return {fields[2]: int(fields[13]) / 1e3 for fields in lines if WHOLE_DISK.fullmatch(fields[2])}


def collect_disks(roots: HostRoots) -> Iterator[Sample]:
    # Before psutil, which without this file would read the agent's own /sys/block.
    weighted = parse_file(f"{roots.proc}/diskstats", parse_weighted)
    # nowrap=False gives the kernel's own numbers; psutil would otherwise add what a counter lost when its device was
    # replaced, which is for the reader of a counter to notice.
    counters = read_by_psutil(roots.proc, "diskstats", lambda: psutil.disk_io_counters(perdisk=True, nowrap=False))
    for device, disk in counters.items():
        if device in weighted:
            yield READS(disk.read_count, device)
            yield READ_BYTES(disk.read_bytes, device)
            yield WRITES(disk.write_count, device)
            yield WRITTEN_BYTES(disk.write_bytes, device)
            yield IO_SECONDS(disk.busy_time / 1e3, device)
            yield WEIGHTED_SECONDS(weighted[device], device)


# Space on the node's own filesystems: mounts from /proc/1/mounts, sizes from psutil (statvfs).
#
# Only filesystems on a block device of the node (and a ZFS or overlay root), each once, at its shortest mount point.
# Left out: pods' volumes and image layers, whose number grows with the pods, and network filesystems, which can hang.

SIZE = gauge("filesystem_size_bytes", "Size of the filesystem.", "device", "fstype", "mountpoint")
AVAILABLE = gauge("filesystem_avail_bytes", "Bytes that a plain user can still use.", "device", "fstype", "mountpoint")
FREE = gauge("filesystem_free_bytes", "Bytes that root can still use.", "device", "fstype", "mountpoint")
READ_ONLY = gauge("filesystem_readonly", "1 when mounted read-only.", "device", "fstype", "mountpoint")

_POD_MOUNTS = re.compile(
    r"/(?:(?:dev|proc|sys|snap)(?:/|$)|run/|var/lib/(?:kubelet|docker|containers|containerd|rancher)/"
    r"|(?:.*/)?kubelet/(?:pods|plugins)/).*"
)
_ROOT_TYPES = ("overlay", "zfs")
_ESCAPE = re.compile(r"\\([0-7]{3})")


class Mount(Struct, frozen=True):
    device: str
    mountpoint: str
    fstype: str
    read_only: bool


def parse(text: str) -> tuple[Mount, ...]:
    """Lists the node's own filesystems, one a device. Source: proc_pid_mounts(5), fstab(5) for the escapes."""
    own = []
    for device, mountpoint, fstype, options, *_ in map(str.split, text.splitlines()):
        mount = Mount(_unescape(device), _unescape(mountpoint), fstype, "ro" in options.split(","))
        if _is_own(mount):
            own.append(mount)
    shortest = {mount.device: mount for mount in sorted(own, key=lambda mount: -len(mount.mountpoint))}
    return tuple(sorted(shortest.values(), key=lambda mount: mount.mountpoint))


def collect_filesystems(
    roots: HostRoots, usage: Callable[[str], Any] = psutil.disk_usage
) -> Iterator[Sample | SensorFault]:
    if roots.rootfs == "/" and roots.proc != "/proc":
        raise NoData(f"{roots.proc} lists the host's mounts, but the host's root filesystem is not mounted here")
    mounts = parse_optional_file(f"{roots.proc}/1/mounts", parse)
    for mount in parse_file(f"{roots.proc}/self/mounts", parse) if mounts is None else mounts:
        yield from _samples(mount, f"{roots.rootfs.rstrip('/')}{mount.mountpoint}", usage)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)


def _is_own(mount: Mount) -> bool:
    if mount.mountpoint == "/":
        return mount.device.startswith("/dev/") or mount.fstype in _ROOT_TYPES
    return mount.device.startswith("/dev/") and not _POD_MOUNTS.fullmatch(mount.mountpoint)


def _samples(mount: Mount, path: str, usage: Callable[[str], Any]) -> Iterator[Sample | SensorFault]:
    labels = (mount.device, mount.fstype, mount.mountpoint)
    try:
        space = usage(path)
    except OSError as error:
        yield SensorFault(f"{path}: {error.strerror}")
        return
    yield SIZE(space.total, *labels)
    yield AVAILABLE(space.free, *labels)
    yield FREE(space.total - space.used, *labels)
    yield READ_ONLY(mount.read_only, *labels)
