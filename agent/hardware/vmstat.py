"""Paging and out-of-memory kills from /proc/vmstat. Source: the kernel's mm/vmstat.c."""

from collections.abc import Iterator

from agent.hardware.kernel_files import parse_file
from agent.hardware.samples import HostRoots, Sample, counter

SWAP_IN = counter("vmstat_pswpin_total", "Pages swapped in.")
SWAP_OUT = counter("vmstat_pswpout_total", "Pages swapped out.")

FAMILIES = {
    "pswpin": SWAP_IN,
    "pswpout": SWAP_OUT,
    "pgmajfault": counter("vmstat_pgmajfault_total", "Page faults that had to read from disk."),
    "oom_kill": counter("vmstat_oom_kill_total", "Processes killed because memory ran out."),
}


def parse(text: str) -> dict[str, int]:
    """Counter → value, for those in FAMILIES that this kernel has."""
    pairs = (line.split() for line in text.splitlines())
    return {name: int(value) for name, value in pairs if name in FAMILIES}


def collect(roots: HostRoots) -> Iterator[Sample]:
    for name, value in parse_file(f"{roots.proc}/vmstat", parse).items():
        yield FAMILIES[name](value)
