"""The round-trip time between two readings of a pair of clocks. Pure.

The kernel stamps received packets with CLOCK_REALTIME, which may be set at any moment. CLOCK_MONOTONIC read
before sending and after receiving bounds the truth from above and shows that the other one was set.
"""

from collections.abc import Callable
from typing import NamedTuple

_TOLERANCE_NS = 50_000
"""Two reads of the pair may be this far apart without a step: the time between reading one clock and the other."""


class DualTimestamp(NamedTuple):
    """Both clocks, read together."""

    monotonic_ns: int
    wall_ns: int

    @property
    def seconds(self) -> float:
        """Monotonic seconds."""
        return self.monotonic_ns / 1e9


DualClock = Callable[[], DualTimestamp]


def round_trip_ns(sent: DualTimestamp, received_wall_ns: int, now: DualTimestamp) -> int | None:
    """Nanoseconds from `sent` to the kernel's receive stamp, in 1..elapsed; None when the wall clock was set meanwhile.

    `now` is read after the packet was taken from the socket.
    """
    elapsed = now.monotonic_ns - sent.monotonic_ns
    step = now.wall_ns - sent.wall_ns - elapsed
    round_trip = received_wall_ns - sent.wall_ns
    plausible = -_TOLERANCE_NS <= step <= _TOLERANCE_NS and 0 < round_trip <= elapsed
    return round_trip if plausible else None
