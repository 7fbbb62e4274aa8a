"""The rhythm of reports, and how long a reader trusts them.

    P push interval     5 s    each report, ± 10 %
    T call timeout      3 s    one call to the store
    S stale            15 s    unchanged for longer: not used any more
    L lease            20 s    unrenewed for longer: the node's records go

P + 2T ≤ S < L: one failed and repeated call does not make a healthy node stale, and a node is stale before
it vanishes. Past 1,000 nodes P, S and L stretch together, so that the store sees at most 200 reports a second.
"""

from math import ceil

from msgspec import Struct

STALE_INTERVALS = 3
"""S / P. A reader takes S from the interval that the writer states in its heartbeat, so both always agree."""

_LEASE_INTERVALS = 4
_REPORTS_PER_SECOND = 200.0
_LONGEST_INTERVAL_SECONDS = 120.0


class ReportTiming(Struct, frozen=True):
    """All in seconds. Build with `timing`, which checks P + 2T ≤ S < L."""

    push_interval_seconds: float = 5.0
    call_timeout_seconds: float = 3.0

    @property
    def stale_seconds(self) -> float:
        return stale_seconds(self.push_interval_seconds)

    @property
    def lease_seconds(self) -> int:
        return round(self.push_interval_seconds * _LEASE_INTERVALS)

    def __post_init__(self) -> None:
        push, call, stale = self.push_interval_seconds, self.call_timeout_seconds, self.stale_seconds
        if not 0 < push <= _LONGEST_INTERVAL_SECONDS:
            raise ValueError(f"push interval {push} s: want more than 0, at most {_LONGEST_INTERVAL_SECONDS:g}")
        if not (call > 0 and push + 2 * call <= stale < self.lease_seconds):
            raise ValueError(
                f"call timeout {call} s: want more than 0 and P + 2T <= S < L, "
                f"but P is {push}, S {stale}, L {self.lease_seconds}"
            )


def stale_seconds(push_interval_seconds: float) -> float:
    """How long an unchanged heartbeat of this interval is trusted."""
    return STALE_INTERVALS * push_interval_seconds


def timing_for_nodes(base: ReportTiming, nodes: int) -> ReportTiming:
    """The timing at `nodes` nodes. P grows in whole steps, so that a node more or less seldom changes it."""
    steps = max(1, ceil(nodes / (_REPORTS_PER_SECOND * base.push_interval_seconds)))
    return ReportTiming(min(base.push_interval_seconds * steps, _LONGEST_INTERVAL_SECONDS), base.call_timeout_seconds)
