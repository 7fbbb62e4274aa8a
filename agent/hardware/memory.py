"""Collects memory and swap, paging, and memory errors that ECC found.

Memory is from psutil; page cache and dirty pages are from /proc/meminfo, since psutil has no Dirty, and its `cached`
adds SReclaimable to Cached. Source: proc_meminfo(5), where "kB" means KiB.
"""

from collections.abc import Iterator

from msgspec import Struct

from agent.hardware import psutil_source
from agent.hardware.kernel_files import list_directory, parse_file
from agent.hardware.samples import HostRoots, NoData, Sample, counter, gauge

TOTAL = gauge("memory_total_bytes", "Usable memory (MemTotal).")
FREE = gauge("memory_free_bytes", "Memory in no use at all (MemFree).")
AVAILABLE = gauge("memory_available_bytes", "Memory that new work can take without swapping (MemAvailable).")
BUFFERS = gauge("memory_buffers_bytes", "Memory in block device buffers (Buffers).")
CACHED = gauge("memory_cached_bytes", "Memory in the page cache (Cached).")
DIRTY = gauge("memory_dirty_bytes", "Memory waiting to be written to disk (Dirty).")
SWAP_TOTAL = gauge("memory_swap_total_bytes", "Swap space (SwapTotal).")
SWAP_FREE = gauge("memory_swap_free_bytes", "Swap space not in use (SwapFree).")

_OWN_FIELDS = ("Cached", "Dirty")
_KIB = 1024


def parse_memory(text: str) -> dict[str, int]:
    """Field → bytes, for the fields that psutil lacks and this kernel has."""
    fields = (line.split() for line in text.splitlines())
    return {field[0][:-1]: int(field[1]) * _KIB for field in fields if field[0][:-1] in _OWN_FIELDS}


def collect_memory(roots: HostRoots) -> Iterator[Sample]:
    memory, swap = psutil_source.virtual_memory(roots.proc), psutil_source.swap_memory(roots.proc)
    own = parse_file(f"{roots.proc}/meminfo", parse_memory)
    sizes_bytes = {
        TOTAL: memory.total,
        FREE: memory.free,
        AVAILABLE: memory.available,
        BUFFERS: memory.buffers,
        CACHED: own.get("Cached"),
        SWAP_TOTAL: swap.total,
        SWAP_FREE: swap.free,
        DIRTY: own.get("Dirty"),
    }
    yield from (family(size) for family, size in sizes_bytes.items() if size is not None)


# Paging and out-of-memory kills from /proc/vmstat. Source: the kernel's mm/vmstat.c.

SWAP_IN = counter("vmstat_pswpin_total", "Pages swapped in.")
SWAP_OUT = counter("vmstat_pswpout_total", "Pages swapped out.")

FAMILIES = {
    "pswpin": SWAP_IN,
    "pswpout": SWAP_OUT,
    "pgmajfault": counter("vmstat_pgmajfault_total", "Page faults that had to read from disk."),
    "oom_kill": counter("vmstat_oom_kill_total", "Processes killed because memory ran out."),
}


def parse_vmstat(text: str) -> dict[str, int]:
    """Counter → value, for those in FAMILIES that this kernel has."""
    pairs = (line.split() for line in text.splitlines())
    return {name: int(value) for name, value in pairs if name in FAMILIES}


def collect_vmstat(roots: HostRoots) -> Iterator[Sample]:
    for name, value in parse_file(f"{roots.proc}/vmstat", parse_vmstat).items():
        yield FAMILIES[name](value)


# Memory errors that the controllers counted.
#
# Source: Documentation/ABI/testing/sysfs-devices-edac, docs.kernel.org/driver-api/edac.html

CORRECTABLE = counter("edac_correctable_errors_total", "Memory errors corrected.", "controller")
UNCORRECTABLE = counter("edac_uncorrectable_errors_total", "Memory errors that could not be corrected.", "controller")


class MemoryController(Struct, frozen=True):
    """Errors since the driver was loaded or the counters were reset."""

    number: str
    correctable: int
    uncorrectable: int


def parse_edac(number: str, ce_count: str, ue_count: str) -> MemoryController:
    return MemoryController(number, int(ce_count), int(ue_count))


def collect_edac(roots: HostRoots) -> Iterator[Sample]:
    root = f"{roots.sys}/devices/system/edac/mc"
    controllers = [name for name in list_directory(root) if name[2:].isdigit()]
    if not controllers:
        raise NoData("no memory controller reports errors (no EDAC driver, or memory without ECC)")
    for name in controllers:
        controller = parse_edac(
            name[2:], parse_file(f"{root}/{name}/ce_count", str), parse_file(f"{root}/{name}/ue_count", str)
        )
        yield CORRECTABLE(controller.correctable, controller.number)
        yield UNCORRECTABLE(controller.uncorrectable, controller.number)
