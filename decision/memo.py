"""What was computed from nodes' states, kept while it holds.

It saves time and changes no answer. A column has a value for each node, kept while that node's state is the same
object: of 5,000 nodes a few report between two pods, and only those are computed again. A table is made of all nodes
at once, and kept while the snapshot is the same and nobody's freshness changes.

What is new replaces the old whole, so concurrent readers see the one or the other, and departed nodes leave no trace.
"""

from collections.abc import Callable, Hashable, Mapping
from itertools import compress
from operator import attrgetter, is_not
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct

from clusterstate.snapshot import NodeState, Snapshot

V = TypeVar("V")

MOST_TABLES = 16
"""Kept at once: there may be one for each node that a pod names, of up to 0.5 MB at 5,000 nodes."""


class _Column(Struct, Generic[V], frozen=True):
    parameters: Hashable
    states: Mapping[str, NodeState]
    values: Mapping[str, V]


class _Period(Struct, frozen=True):
    """In monotonic seconds `since` .. `until`, the latter excluded, no freshness of these states changes."""

    states: Mapping[str, NodeState]
    since: float
    until: float
    tables: dict[Hashable, Any]


class Memo:
    """Share one between all Facts of a process."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column[Any]] = {}
        self._period = _Period({}, 0.0, 0.0, {})

    def column(
        self, name: str, parameters: Hashable, of: Callable[[NodeState], V], snapshot: Snapshot
    ) -> Mapping[str, V]:
        """Node → of(its state), for every node of the snapshot. `of` depends on the state and `parameters` only."""
        before = self._columns.get(name)
        if before is None or before.parameters != parameters:
            before = _Column(parameters, {}, {})
        if before.states is not snapshot.nodes:
            before = self._columns[name] = _Column(parameters, snapshot.nodes, _updated(before, of, snapshot.nodes))
        return cast(Mapping[str, V], before.values)

    def fresh_until(self, snapshot: Snapshot) -> Mapping[str, float]:
        """Node → the monotonic seconds from which its data are stale; -inf while silent or provisional."""
        return self.column("fresh_until", None, attrgetter("fresh_until"), snapshot)

    def table(self, key: Hashable, make: Callable[[], V], snapshot: Snapshot, now: float) -> V:
        """make(). It depends on `key`, the snapshot's states and how fresh each is at `now`, and is never None."""
        tables = self._current(snapshot, now).tables
        found = tables.get(key)
        if found is None:
            if len(tables) >= MOST_TABLES:
                tables.clear()
            found = tables[key] = make()
        return cast(V, found)

    def _current(self, snapshot: Snapshot, now: float) -> _Period:
        period = self._period
        if period.states is not snapshot.nodes or not period.since <= now < period.until:
            later = (until for until in self.fresh_until(snapshot).values() if until > now)
            period = self._period = _Period(snapshot.nodes, now, min(later, default=float("inf")), {})
        return period


def _updated(before: _Column[V], of: Callable[[NodeState], V], states: Mapping[str, NodeState]) -> dict[str, V]:
    moved = map(is_not, states.values(), map(before.states.get, states))
    changed = {node: of(state) for node, state in compress(states.items(), moved)}
    values = {**before.values, **changed}
    return values if len(values) == len(states) else {node: values[node] for node in states}
