"""Limits the memory that glibc's malloc keeps beside what is in use.

Source: man 3 mallopt. M_ARENA_MAX: of a process whose threads take turns at Python's interpreter, many arenas make
nothing faster, and what is freed in one is of no use to the others. M_MMAP_THRESHOLD: unless it is set, it grows to
32 MiB with what was freed; bodies that arrive at the same time then grow between each other in the heap, which keeps
the gaps (100 MiB with four bodies of 50 MB).
"""

import ctypes
from contextlib import suppress

MAX_ARENAS = 2
MMAP_THRESHOLD_BYTES = 512 << 10
"""Larger blocks have pages of their own, which go back at once and grow without a copy: above all arrays of 80,000
windows, 0.7 MB each, of which a decision on 5,000 nodes makes some for a moment. Pieces of bodies have 256 KiB:
with pages of its own for each a body cost 1.7 times the CPU."""

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""From malloc.h."""


def limit_malloc(arenas: int = MAX_ARENAS, mmap_threshold_bytes: int = MMAP_THRESHOLD_BYTES) -> None:
    """Call it before threads start. Does nothing where the C library has no such limits (musl, macOS)."""
    with suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, arenas)
        mallopt(_M_MMAP_THRESHOLD, mmap_threshold_bytes)
