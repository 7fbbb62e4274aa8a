"""Memory and swap from /proc/meminfo. Source: proc_meminfo(5); its "kB" are KiB."""

from collections.abc import Iterator

from agent.hardware.kernel_files import parse_file
from agent.hardware.samples import HostRoots, Sample, gauge

TOTAL = gauge("memory_total_bytes", "Usable memory (MemTotal).")
AVAILABLE = gauge("memory_available_bytes", "Memory that new work can take without swapping (MemAvailable).")
SWAP_TOTAL = gauge("memory_swap_total_bytes", "Swap space (SwapTotal).")
SWAP_FREE = gauge("memory_swap_free_bytes", "Swap space not in use (SwapFree).")

FAMILIES = {
    "MemTotal": TOTAL,
    "MemFree": gauge("memory_free_bytes", "Memory in no use at all (MemFree)."),
    "MemAvailable": AVAILABLE,
    "Buffers": gauge("memory_buffers_bytes", "Memory in block device buffers (Buffers)."),
    "Cached": gauge("memory_cached_bytes", "Memory in the page cache (Cached)."),
    "Dirty": gauge("memory_dirty_bytes", "Memory waiting to be written to disk (Dirty)."),
    "SwapTotal": SWAP_TOTAL,
    "SwapFree": SWAP_FREE,
}

_KIB = 1024


def parse(text: str) -> dict[str, int]:
    """Field → bytes, for the fields in FAMILIES that this kernel has."""
    fields = (line.split() for line in text.splitlines())
    return {field[0][:-1]: int(field[1]) * _KIB for field in fields if field[0][:-1] in FAMILIES}


def collect(roots: HostRoots) -> Iterator[Sample]:
    for field, size_bytes in parse_file(f"{roots.proc}/meminfo", parse).items():
        yield FAMILIES[field](size_bytes)
