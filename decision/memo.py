"""What was computed from nodes' states, kept while it holds.

It saves time and changes no answer. A column has values of single nodes, each kept while that node's state is the same
object: of 5,000 nodes a few report between two pods, and only those are computed again. A table is made of all nodes
at once, and kept while the snapshot is the same and nobody's freshness changes.

What is new replaces the old whole, so concurrent readers see the one or the other, and departed nodes leave no trace.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
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
    values: dict[str, V]


class _Moves(Struct, frozen=True):
    """The nodes that came, went or changed between two snapshots' states."""

    before: Mapping[str, NodeState]
    after: Mapping[str, NodeState]
    nodes: Collection[str]


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
        self._moves = _Moves({}, {}, ())
        self._period = _Period({}, 0.0, 0.0, {})

    def column(
        self, name: str, parameters: Hashable, of: Callable[[NodeState], V | None], snapshot: Snapshot
    ) -> Mapping[str, V]:
        """Node → of(its state), without those where it is None. `of` depends on the state and `parameters` only."""
        before = self._columns.get(name)
        if before is None:
            self._forget_unused(snapshot)
        if before is None or before.parameters != parameters:
            before = _Column(parameters, {}, {})
        if before.states is not snapshot.nodes:
            values = _updated(before.values, of, self._moved(before.states, snapshot.nodes), snapshot.nodes)
            before = self._columns[name] = _Column(parameters, snapshot.nodes, values)
        return cast(Mapping[str, V], before.values)

    def _forget_unused(self, snapshot: Snapshot) -> None:
        """Of a name that nobody asks for any more, the column would keep an old snapshot's states for ever."""
        columns = self._columns
        self._columns = {name: each for name, each in columns.items() if each.states is snapshot.nodes}

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
            later = filter(now.__lt__, self.fresh_until(snapshot).values())
            period = self._period = _Period(snapshot.nodes, now, min(later, default=float("inf")), {})
        return period

    def _moved(self, before: Mapping[str, NodeState], after: Mapping[str, NodeState]) -> Collection[str]:
        """Looked for once, as most columns move together."""
        moves = self._moves
        if moves.before is not before or moves.after is not after:
            moves = self._moves = _Moves(before, after, _moved(before, after))
        return moves.nodes


def _updated(
    before: dict[str, V], of: Callable[[NodeState], V | None], moved: Iterable[str], states: Mapping[str, NodeState]
) -> dict[str, V]:
    values = before.copy()
    for node in moved:
        value = of(states[node]) if node in states else None
        if value is None:
            values.pop(node, None)
        else:
            values[node] = value
    return values


def _moved(before: Mapping[str, NodeState], after: Mapping[str, NodeState]) -> Collection[str]:
    changed = list(compress(after, map(is_not, after.values(), map(before.get, after))))
    gone = len(after) < len(before) + sum(node not in before for node in changed)
    return [*changed, *(before.keys() - after.keys())] if gone else changed
