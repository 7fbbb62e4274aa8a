"""Memory and swap, from psutil; page cache and dirty pages from /proc/meminfo.

psutil has no Dirty, and its `cached` adds SReclaimable to Cached. Source: proc_meminfo(5), where "kB" means KiB.
"""

from collections.abc import Iterator

from agent.hardware import psutil_source
from agent.hardware.kernel_files import parse_file
from agent.hardware.samples import HostRoots, Sample, gauge

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


def parse(text: str) -> dict[str, int]:
    """Field → bytes, for the fields that psutil lacks and this kernel has."""
    fields = (line.split() for line in text.splitlines())
    return {field[0][:-1]: int(field[1]) * _KIB for field in fields if field[0][:-1] in _OWN_FIELDS}


def collect(roots: HostRoots) -> Iterator[Sample]:
    memory, swap = psutil_source.virtual_memory(roots.proc), psutil_source.swap_memory(roots.proc)
    own = parse_file(f"{roots.proc}/meminfo", parse)
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
