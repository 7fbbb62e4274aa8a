"""Periods in which no node's freshness changes, each with the tables that hold for so long."""

from collections.abc import Hashable, Mapping, Sequence
from operator import is_
from typing import Any

from msgspec import Struct

from leadsman.runtime.lru import LruCache
from leadsman.state.snapshot import NodeState, Snapshot

MAX_SNAPSHOT_ENTRIES = 64
"""Of a period, used lately. An evaluated bound takes 55 KB at 5,000 nodes."""

MAX_PERIODS = 4
"""Whose tables are kept. A pod is scored on the snapshot that it was filtered on, while others are filtered on newer
ones: with one period each took the tables from the other."""

PERIOD_REUSE_SECONDS = 1.0
"""After which the tables of an older period are dropped; by then it holds states that nothing else does."""


class FreshPeriod(Struct, frozen=True):
    """In monotonic seconds `since` .. `until`, the latter excluded, no freshness of these states changes. others: what
    else the tables were made of."""

    states: Mapping[str, NodeState]
    others: Sequence[object]
    since: float
    until: float
    tables: LruCache[Hashable, Any]

    def covers(self, snapshot: Snapshot, now: float, others: Sequence[object]) -> bool:
        """Whether its tables hold for these."""
        same = self.states is snapshot.nodes and len(others) == len(self.others)
        return same and self.since <= now < self.until and all(map(is_, others, self.others))


class FreshPeriods:
    """The periods used lately, newest first. Replaced as a whole, so that concurrent readers see one or the other."""

    def __init__(self) -> None:
        self._periods: tuple[FreshPeriod, ...] = ()

    def find(self, snapshot: Snapshot, now: float, others: Sequence[object]) -> FreshPeriod | None:
        """The period whose tables hold for these; None: there is none."""
        for period in self._periods:
            if period.covers(snapshot, now, others):
                return period
        return None

    def begin(self, snapshot: Snapshot, now: float, others: Sequence[object], until: float) -> FreshPeriod:
        """A new period, from `now`."""
        newest = FreshPeriod(snapshot.nodes, others, now, until, LruCache(MAX_SNAPSHOT_ENTRIES))
        recent = [period for period in self._periods if now - period.since < PERIOD_REUSE_SECONDS]
        self._periods = (newest, *recent[: MAX_PERIODS - 1])
        return newest
