"""Where a Python process has its memory: what is in use, and what its two allocators keep free."""

import ctypes
import os
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

from msgspec import Struct

SIZES = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")

ARENA_BYTES = 1 << 20


class Mallinfo(ctypes.Structure):
    """struct mallinfo2 of man 3 mallinfo."""

    _fields_ = [(name, ctypes.c_size_t) for name in SIZES]


class Allocated(Struct, frozen=True):
    """What the allocators say of themselves, in bytes.

    objects: taken from Python's own allocator, which has blocks of up to 512 bytes.
    free_lists: of these, objects that nobody uses: Python keeps tuples (2,000 of each length), floats, lists and dicts
        for the next ones until a full collection.
    arenas: what that allocator has of the system.
    blocks: in use of the C library's.
    free_blocks: what that one keeps for later, some of it never touched.
    """

    objects: int
    free_lists: int
    arenas: int
    blocks: int
    free_blocks: int


class Resident(Struct, frozen=True):
    """What is in memory, in bytes.

    file: pages of programs and libraries, which the system shares and takes back.
    heap: the C library's, where it grows a block at a time.
    anonymous: everything else: Python's arenas, stacks, variables of libraries.
    """

    file: int
    heap: int
    anonymous: int

    @property
    def total(self) -> int:
        return self.file + self.heap + self.anonymous


def own_allocations() -> Allocated:
    info = _mallinfo2()
    stats = _own_stats()
    (arenas,) = _numbers(r"arenas allocated current +=\s*([\d,]+)", stats)
    (objects,) = _numbers(r"bytes in allocated blocks +=\s*([\d,]+)", stats)
    free_lists = sum(_numbers(r"\d+ free .*=\s*([\d,]+)", stats))
    return Allocated(objects, free_lists, arenas * ARENA_BYTES, info.uordblks + info.hblkhd, info.fordblks)


def resident(pid: int) -> Resident:
    """By the kernel's smaps(5)."""
    found: Counter[str] = Counter()
    path = ""
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        name, *rest = line.split()
        if not name.endswith(":"):
            path = rest[4] if len(rest) > 4 else ""
        elif name == "Rss:":
            found["all"] += int(rest[0]) * 1024
        elif name == "Anonymous:":
            found["heap" if path == "[heap]" else "anonymous"] += int(rest[0]) * 1024
    return Resident(found["all"] - found["heap"] - found["anonymous"], found["heap"], found["anonymous"])


def _numbers(pattern: str, stats: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(pattern, stats)]


def _mallinfo2() -> Mallinfo:
    function = ctypes.CDLL(None).mallinfo2
    function.restype = Mallinfo
    info: Mallinfo = function()
    return info


def _own_stats() -> str:
    """What `sys._debugmallocstats` prints: it writes to the C library's stderr alone."""
    with tempfile.TemporaryFile() as out:
        before = os.dup(2)
        os.dup2(out.fileno(), 2)
        try:
            sys._debugmallocstats()
        finally:
            os.dup2(before, 2)
            os.close(before)
        out.seek(0)
        return out.read().decode()
