"""I/O of whole disks, from psutil; the weighted time, which psutil lacks, from /proc/diskstats.

Source: docs.kernel.org/admin-guide/iostats.html

Left out: partitions, loop, ram and zram, and mapped or network volumes (dm-, rbd, nbd), whose number
grows with the pods and whose I/O the disks below already count.
"""

import re
from collections.abc import Iterator

from agent.hardware import psutil_source
from agent.hardware.kernel_files import parse_file
from agent.hardware.samples import HostRoots, Sample, counter

WHOLE_DISK = re.compile(r"(?:sd|hd|vd|xvd)[a-z]+|nvme\d+n\d+|mmcblk\d+|dasd[a-z]+|pmem\d+")

READS = counter("disk_reads_completed_total", "Reads completed.", "device")
READ_BYTES = counter("disk_read_bytes_total", "Bytes read.", "device")
WRITES = counter("disk_writes_completed_total", "Writes completed.", "device")
WRITTEN_BYTES = counter("disk_written_bytes_total", "Bytes written.", "device")
IO_SECONDS = counter("disk_io_time_seconds_total", "Seconds with I/O under way.", "device")
WEIGHTED_SECONDS = counter("disk_io_time_weighted_seconds_total", "Seconds under way, summed over requests.", "device")


def parse_weighted(text: str) -> dict[str, float]:
    """Whole disk → seconds under way, summed over requests: the 11th number after its name."""
    lines = (line.split() for line in text.splitlines())
    return {fields[2]: int(fields[13]) / 1e3 for fields in lines if WHOLE_DISK.fullmatch(fields[2])}


def collect(roots: HostRoots) -> Iterator[Sample]:
    # Before psutil, which without this file would read the agent's own /sys/block.
    weighted = parse_file(f"{roots.proc}/diskstats", parse_weighted)
    for device, disk in psutil_source.disk_io_counters(roots.proc).items():
        if device in weighted:
            yield READS(disk.read_count, device)
            yield READ_BYTES(disk.read_bytes, device)
            yield WRITES(disk.write_count, device)
            yield WRITTEN_BYTES(disk.write_bytes, device)
            yield IO_SECONDS(disk.busy_time / 1e3, device)
            yield WEIGHTED_SECONDS(weighted[device], device)
