"""Limits the memory that glibc's malloc keeps for each thread.

Source: man 3 mallopt, M_ARENA_MAX. Of a process whose threads take turns at Python's interpreter, many arenas make
nothing faster, and what is freed in one is of no use to the others.
"""

import ctypes
from contextlib import suppress

MAX_ARENAS = 2

_M_ARENA_MAX = -8
"""From malloc.h."""


def limit_arenas(arenas: int = MAX_ARENAS) -> None:
    """Call it before threads start. Does nothing where the C library has no such limit (musl, macOS)."""
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, arenas)
