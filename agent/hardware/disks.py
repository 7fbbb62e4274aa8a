"""Whole disks from /proc/diskstats. Source: docs.kernel.org/admin-guide/iostats.html

Left out: partitions, loop, ram and zram, and mapped or network volumes (dm-, rbd, nbd), whose number
grows with the pods and whose I/O the disks below already count.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from agent.hardware.kernel_files import parse_file
from agent.hardware.samples import HostRoots, Sample, counter

WHOLE_DISK = re.compile(r"(?:sd|hd|vd|xvd)[a-z]+|nvme\d+n\d+|mmcblk\d+|dasd[a-z]+|pmem\d+")

READS = counter("disk_reads_completed_total", "Reads completed.", "device")
READ_BYTES = counter("disk_read_bytes_total", "Bytes read.", "device")
WRITES = counter("disk_writes_completed_total", "Writes completed.", "device")
WRITTEN_BYTES = counter("disk_written_bytes_total", "Bytes written.", "device")
IO_SECONDS = counter("disk_io_time_seconds_total", "Seconds with I/O under way.", "device")
WEIGHTED_SECONDS = counter("disk_io_time_weighted_seconds_total", "Seconds under way, summed over requests.", "device")

_SECTOR_BYTES = 512


class Disk(Struct, frozen=True):
    """Counters since boot."""

    device: str
    reads: int
    read_bytes: int
    writes: int
    written_bytes: int
    io_seconds: float
    weighted_seconds: float


def parse(text: str) -> tuple[Disk, ...]:
    """All whole disks."""
    lines = (line.split() for line in text.splitlines())
    return tuple(_disk(fields) for fields in lines if WHOLE_DISK.fullmatch(fields[2]))


def collect(roots: HostRoots) -> Iterator[Sample]:
    for disk in parse_file(f"{roots.proc}/diskstats", parse):
        yield READS(disk.reads, disk.device)
        yield READ_BYTES(disk.read_bytes, disk.device)
        yield WRITES(disk.writes, disk.device)
        yield WRITTEN_BYTES(disk.written_bytes, disk.device)
        yield IO_SECONDS(disk.io_seconds, disk.device)
        yield WEIGHTED_SECONDS(disk.weighted_seconds, disk.device)


def _disk(fields: list[str]) -> Disk:
    reads, _, read_sectors, _, writes, _, written_sectors, _, _, io_ms, weighted_ms = map(int, fields[3:14])
    sizes = (read_sectors * _SECTOR_BYTES, written_sectors * _SECTOR_BYTES)
    return Disk(fields[2], reads, sizes[0], writes, sizes[1], io_ms / 1e3, weighted_ms / 1e3)
