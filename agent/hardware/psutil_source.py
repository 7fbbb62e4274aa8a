"""psutil reading the host's /proc. The only module of the agent that imports psutil.

`psutil.PROCFS_PATH` is one value for the whole process. So it is set once, before the first round, and each read
names the root that it expects: a read of another root raises instead of giving the values of the wrong host.

psutil follows PROCFS_PATH for stat, meminfo, vmstat and diskstats. It does not for load averages, network devices,
mount tables and sensors, which the agent reads itself: docs/decisions/0017 says why for each.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import psutil

from agent.hardware.kernel_files import MalformedFile

if TYPE_CHECKING:
    from psutil._ntuples import scputimes, sdiskio, sdiskusage, sswap, svmem

T = TypeVar("T")


class UnexpectedProcRoot(RuntimeError):
    """A root other than the one that psutil reads in this process. A fault of the program: call set_proc_root first."""


def set_proc_root(proc_root: str) -> None:
    """Make psutil read proc_root in this whole process."""
    psutil.PROCFS_PATH = proc_root


def cpu_times(proc_root: str) -> "scputimes":
    """Seconds since boot by mode, summed over all CPUs."""
    return _read(proc_root, "stat", psutil.cpu_times)


def online_cpus(proc_root: str) -> int:
    """The number of online CPUs. Not by psutil.cpu_count, which asks the reader's own /sys."""
    return len(_read(proc_root, "stat", lambda: psutil.cpu_times(percpu=True)))


def virtual_memory(proc_root: str) -> "svmem":
    """Bytes. `cached` includes reclaimable slabs, which the kernel's own field does not."""
    return _read(proc_root, "meminfo", psutil.virtual_memory)


def swap_memory(proc_root: str) -> "sswap":
    """Bytes."""
    return _read(proc_root, "meminfo", psutil.swap_memory)


def disk_io_counters(proc_root: str) -> "dict[str, sdiskio]":
    """Counters since boot by device, partitions and volumes too; times in milliseconds.

    nowrap=False gives the kernel's own numbers; psutil would otherwise keep a copy of each device's and add what
    a counter lost when the device was replaced, which is for the reader of a counter to notice.
    """
    return _read(proc_root, "diskstats", lambda: psutil.disk_io_counters(perdisk=True, nowrap=False))


def disk_usage(path: str) -> "sdiskusage":
    """Bytes of the filesystem at path, by statvfs(3). OSError as the kernel gave it."""
    return psutil.disk_usage(path)


def _read(proc_root: str, file: str, read: Callable[[], T]) -> T:
    if proc_root != psutil.PROCFS_PATH:
        raise UnexpectedProcRoot(f"psutil reads {psutil.PROCFS_PATH} in this process, not {proc_root}")
    try:
        return read()
    except (ValueError, LookupError, TypeError) as error:
        raise MalformedFile(f"{proc_root}/{file}: psutil cannot parse it: {error!r}") from error
