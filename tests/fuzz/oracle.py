"""What any parser must keep, whatever the bytes are."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

MAX_CPU_SECONDS = 2.0
"""Of this thread, so that a busy machine changes little. 64 KiB take milliseconds where time is linear in the input; a
regular expression that is quadratic takes tens of seconds."""


class Harness(NamedTuple):
    """A parser under test.

    parse: reads the bytes, and what is made of them.
    errors: those that it documents.
    max_bytes: of an input that a run makes; less where the parser is slow, so that more of them are tried.
    """

    parse: Callable[[bytes], object]
    errors: tuple[type[Exception], ...] = ()
    max_bytes: int = 1 << 16


class TooSlow(AssertionError):
    """An input took more CPU time than any of its size should."""


def check(harness: Harness, data: bytes) -> None:
    """Raises what the parser should not have raised, TooSlow, or UnicodeEncodeError for an error that no page shows."""
    began = time.thread_time()
    try:
        harness.parse(data)
    except harness.errors as error:
        str(error).encode()
    seconds = time.thread_time() - began
    if seconds > MAX_CPU_SECONDS:
        raise TooSlow(f"{len(data)} bytes took {seconds:.1f} s of CPU time; at most {MAX_CPU_SECONDS:g} s are allowed")


def check_each(decoders: Sequence[Harness]) -> Harness:
    """One harness of several: each gets every input, and keeps to its own errors."""

    def parse(data: bytes) -> None:
        for each in decoders:
            check(each, data)

    return Harness(parse)
