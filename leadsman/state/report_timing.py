"""Defines how often agents report, and how long a reader trusts a report.

    P push interval     5 s    each report, ± 10 %
    T call timeout      3 s    one call to the store
    S stale            15 s    unchanged for longer: no longer used
    L lease            20 s    unrenewed for longer: the node's records are deleted

P + 2T ≤ S < L: one failed and repeated call does not make a healthy node stale. An agent renews its lease once less
than S + P/2 of it is left, so a node is stale before it vanishes. Past 1,000 nodes P, S and L stretch together, so that
the store sees at most 200 reports a second.

How long a lease is decides how many calls its renewals are. At 5 s L is 4 P, renewed with each report: a dead node's
records are gone within 21 s, which no longer lease could promise. A renewal at every second report would leave 10 s at
worst, so that half of all nodes would vanish where etcd hangs for that long. A stretched interval promises no 21 s, so
its L is 6 P, renewed at every third report: at 5,000 nodes that is a quarter of all calls less.
"""

from math import ceil

from msgspec import Struct

STALE_INTERVALS = 3
"""S / P. A reader takes S from the interval that the writer states in its heartbeat, so both always agree."""

_UNSTRETCHED_SECONDS = 5.0
_LEASE_INTERVALS, _STRETCHED_LEASE_INTERVALS = 4, 6
"""L / P, up to that interval and above it."""
_KEPT_RATIO = 5 / 6
"""A lease of 5 P is renewed at every second report; a shorter one would be at each."""

REPORTS_PER_SECOND = 200.0
"""All agents together send at most so many reports, and make at most so many of any other call that all make."""
LONGEST_INTERVAL_SECONDS = 120.0
"""The report interval P is at most this. A heartbeat that states more is refused: a reader would trust its sender's
data for as long as it says."""


class ReportTiming(Struct, frozen=True):
    """The timing of one agent's reports, in seconds. Raises ValueError unless P + 2T ≤ S < L."""

    push_interval_seconds: float = 5.0
    call_timeout_seconds: float = 3.0

    @property
    def stale_seconds(self) -> float:
        """Returns S."""
        return stale_seconds(self.push_interval_seconds)

    @property
    def lease_seconds(self) -> int:
        """Returns L, for which a new lease is granted."""
        return round(
            self.push_interval_seconds * (_STRETCHED_LEASE_INTERVALS if self._is_stretched else _LEASE_INTERVALS)
        )

    @property
    def least_lease_seconds(self) -> float:
        """Returns for how long a lease must have been granted that is still used. A stretched L has room for a cluster
        that grows by a fifth: a new lease takes four calls, and the estimate of the size wavers."""
        return self.lease_seconds * (_KEPT_RATIO if self._is_stretched else 1.0)

    @property
    def shortest_lease_seconds(self) -> float:
        """Returns what must be left of a lease after a report, so that a node is stale before it vanishes."""
        return self.stale_seconds + self.push_interval_seconds / 2

    @property
    def _is_stretched(self) -> bool:
        return self.push_interval_seconds > _UNSTRETCHED_SECONDS

    def __post_init__(self) -> None:
        push, call, stale = self.push_interval_seconds, self.call_timeout_seconds, self.stale_seconds
        if not 0 < push <= LONGEST_INTERVAL_SECONDS:
            raise ValueError(
                f"--push-interval-seconds {push:g}: want more than 0, at most {LONGEST_INTERVAL_SECONDS:g}"
            )
        if not (call > 0 and push + 2 * call <= stale < self.lease_seconds):
            raise ValueError(
                f"--call-timeout-seconds {call:g}: want at most {(stale - push) / 2:g}, as --push-interval-seconds is "
                f"{push:g}: a healthy node would be stale after one failed call; shorten the one or lengthen the other"
            )


def stale_seconds(push_interval_seconds: float) -> float:
    """Says how long an unchanged heartbeat with this interval is trusted."""
    return STALE_INTERVALS * push_interval_seconds


def timing_for_nodes(base: ReportTiming, nodes: int) -> ReportTiming:
    """Returns the timing in a cluster of `nodes`. P grows in whole steps: a node more or less seldom changes it."""
    steps = max(1, ceil(nodes / (REPORTS_PER_SECOND * base.push_interval_seconds)))
    return ReportTiming(min(base.push_interval_seconds * steps, LONGEST_INTERVAL_SECONDS), base.call_timeout_seconds)
