"""What was computed from nodes' states, kept while it holds.

It saves time and changes no answer. A column has values of single nodes, each kept while that node's state is the same
object: of 5,000 nodes a few report between two pods, and only those are computed again. A table is made of all nodes
at once, and kept while the snapshot is the same and nobody's freshness changes. A row is made of one immutable object.

What is new replaces the old whole, so concurrent readers see the one or the other, and departed nodes leave no trace.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import compress
from operator import attrgetter, is_, is_not
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct

from leadsman.runtime.lru import LruCache
from leadsman.state.snapshot import NodeState, Snapshot

V = TypeVar("V")

MAX_SNAPSHOT_ENTRIES = 32
"""Used lately. There may be some for each node that a pod names, of up to 0.5 MB at 5,000 nodes."""

MAX_NODE_COLUMNS = 128
"""Used lately. Two for each node that a pod names, of up to 0.5 MB at 5,000 nodes that all measure it; with 16 peers a
node they have 16 values."""

MAX_OBJECT_ENTRIES = 64
"""Used lately, of up to 1 MB at 5,000 nodes."""

SNAPSHOTS_PER_GENERATION = 128
"""A column that nobody asks for holds the states that it was made of no longer than two generations."""


class _Column(Struct, Generic[V], frozen=True):
    states: Mapping[str, NodeState]
    values: dict[str, V]


class _NodeChanges(Struct, frozen=True):
    """The nodes that came, went or changed between two snapshots' states."""

    before: Mapping[str, NodeState]
    after: Mapping[str, NodeState]
    nodes: Collection[str]


class _ObjectEntry(Struct, frozen=True):
    owner: object
    value: Any


class _FreshPeriod(Struct, frozen=True):
    """In monotonic seconds `since` .. `until`, the latter excluded, no freshness of these states changes. others: what
    else the tables were made of."""

    states: Mapping[str, NodeState]
    others: Sequence[object]
    since: float
    until: float
    tables: LruCache[Hashable, Any]


class DecisionCache:
    """Share one between all Facts of a process."""

    def __init__(self) -> None:
        self._columns: LruCache[Hashable, _Column[Any]] = LruCache(MAX_NODE_COLUMNS)
        self._objects: LruCache[Hashable, _ObjectEntry] = LruCache(MAX_OBJECT_ENTRIES)
        self._changes = _NodeChanges({}, {}, ())
        self._period = _FreshPeriod({}, (), 0.0, 0.0, LruCache(MAX_SNAPSHOT_ENTRIES))
        self._snapshots = 0

    def per_node(
        self, name: str, parameters: Hashable, of: Callable[[NodeState], V | None], snapshot: Snapshot
    ) -> Mapping[str, V]:
        """Node → of(its state), without those where it is None. `of` depends on the state and `parameters` only."""
        key = (name, parameters)
        found = self._columns.get(key) or _Column({}, {})
        if found.states is not snapshot.nodes:
            values = _updated(found.values, of, self._changed_nodes(found.states, snapshot.nodes), snapshot.nodes)
            found = _Column(snapshot.nodes, values)
            self._columns.put(key, found)
        return cast(Mapping[str, V], found.values)

    def per_object(self, owner: object, key: Hashable, make: Callable[[], V]) -> V:
        """make(), which depends on the immutable `owner` and `key` only, and is never None."""
        found = self._objects.get((id(owner), key))
        if found is None or found.owner is not owner:
            found = _ObjectEntry(owner, make())
            self._objects.put((id(owner), key), found)
        return cast(V, found.value)

    def fresh_until(self, snapshot: Snapshot) -> Mapping[str, float]:
        """Node → the monotonic seconds from which its data are stale; -inf while silent or provisional."""
        return self.per_node("fresh_until", None, attrgetter("fresh_until"), snapshot)

    def per_snapshot(
        self,
        key: Hashable,
        make: Callable[[], V],
        snapshot: Snapshot,
        now: float,
        others: Sequence[object] = (),
        until: float = float("inf"),
    ) -> V:
        """make(). It depends on `key`, the snapshot's states, how fresh each is at `now`, and the immutable `others`,
        which stay as they are `until` then. Never None."""
        tables = self._current(snapshot, now, others, until).tables
        found = tables.get(key)
        if found is None:
            found = make()
            tables.put(key, found)
        return cast(V, found)

    def _current(self, snapshot: Snapshot, now: float, others: Sequence[object], until: float) -> _FreshPeriod:
        period = self._period
        same = period.states is snapshot.nodes and len(others) == len(period.others)
        if not (same and period.since <= now < period.until and all(map(is_, others, period.others))):
            until = min(until, _next_after(self.fresh_until(snapshot).values(), now))
            period = self._period = _FreshPeriod(snapshot.nodes, others, now, until, LruCache(MAX_SNAPSHOT_ENTRIES))
        return period

    def _changed_nodes(self, before: Mapping[str, NodeState], after: Mapping[str, NodeState]) -> Collection[str]:
        """Looked for once, as most columns move together."""
        moves = self._changes
        if moves.before is not before or moves.after is not after:
            self._count(after)
            moves = self._changes = _NodeChanges(before, after, _changed_nodes(before, after))
        return moves.nodes

    def _count(self, states: Mapping[str, NodeState]) -> None:
        self._snapshots += states is not self._changes.after
        if self._snapshots >= SNAPSHOTS_PER_GENERATION:
            self._snapshots = 0
            self._columns.start_generation()


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


def _next_after(moments: Collection[float], now: float) -> float:
    """The first after now. Mostly all are, which a plain min finds in a fifth of the time."""
    first = min(moments, default=float("inf"))
    return first if first > now else min(filter(now.__lt__, moments), default=float("inf"))


def _changed_nodes(before: Mapping[str, NodeState], after: Mapping[str, NodeState]) -> Collection[str]:
    """A snapshot's table is mostly its predecessor's, copied and changed: then nodes are compared by position."""
    if len(before) == len(after) and all(map(is_, before, after)):
        return list(compress(after, map(is_not, after.values(), before.values())))
    changed = list(compress(after, map(is_not, after.values(), map(before.get, after))))
    gone = len(after) < len(before) + sum(node not in before for node in changed)
    return [*changed, *(before.keys() - after.keys())] if gone else changed
