"""What was computed from nodes' states, kept while it holds. It saves time and changes no answer.

    column   a value of each single node, kept while that node's state is the same object: of 5,000 nodes a few report
             between two pods, and only those are computed again. As a dict, or as an array over a NodeIndex
    table    made of all nodes at once, kept for one snapshot while nobody's freshness changes, and a second longer
    row      made of one immutable object
    result   made of several immutable objects: the scores of these nodes by those plugin scores

What is new replaces the old whole, so concurrent readers see the one or the other, and departed nodes leave no trace.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import is_
from typing import Any, Generic, TypeVar, cast

import numpy as np
from msgspec import Struct

from leadsman.decision.columns import FloatArray
from leadsman.decision.node_entries import NamedValues, NodeEntries
from leadsman.decision.node_index import ABSENT, NodeIndex, PositionArray
from leadsman.runtime.lru import IdentityKey, LruCache
from leadsman.state.snapshot import NodeState, Snapshot, changed_nodes

# Periods in which no node's freshness changes, each with the tables that hold for so long.

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


V = TypeVar("V")

MAX_NODE_COLUMNS = 128
"""Used lately, of up to 0.5 MB at 5,000 nodes as a dict, and 40 KB as an array."""

MAX_NODE_ENTRIES = 1
"""Of up to 24 bytes a window: 2 MB at 5,000 nodes with 16 peers. There is one for each statistic of a policy."""

MAX_OBJECT_ENTRIES = 128
"""Used lately, of up to 0.13 MB at 5,000 nodes: a reference's row in each source of delays and in the estimates."""

MAX_RESULTS = 8
"""Used lately, of up to 0.4 MB at 5,000 nodes. A pod with a bound has four: the nodes that pass,
two scores, the total."""

MAX_NODE_LISTS = 4
"""Lists of nodes asked about, used lately."""

SNAPSHOTS_PER_GENERATION = 128
"""A column that nobody asks for holds the states that it was made of no longer than two generations."""


class _Column(Struct, Generic[V], frozen=True):
    snapshot: Snapshot
    values: dict[str, V]


class _ArrayColumn(Struct, frozen=True):
    snapshot: Snapshot
    index: NodeIndex
    values: FloatArray


class _EntriesOfStates(Struct, frozen=True):
    snapshot: Snapshot
    index: NodeIndex
    entries: NodeEntries


class _NodeChanges(Struct, frozen=True):
    """Between two snapshots. nodes: those that came, went or changed. same_names: none came or went."""

    before: Snapshot
    after: Snapshot
    nodes: Collection[str]
    same_names: bool


class _ChangedStates(Struct, frozen=True):
    """The same over an index. states: of those that are still there, at `positions`; gone: the positions of others."""

    changes: _NodeChanges
    index: NodeIndex
    positions: PositionArray
    states: Sequence[NodeState]
    gone: PositionArray


class _IndexOfStates(Struct, frozen=True):
    """The index of the states' nodes, and of others that were asked for since nodes came or went."""

    snapshot: Snapshot
    index: NodeIndex


class _IndexMove(Struct, frozen=True):
    """positions: where each node of `after` stands in `before`."""

    before: NodeIndex
    after: NodeIndex
    positions: PositionArray


class _ObjectEntry(Struct, frozen=True):
    owner: object
    value: Any


_NO_NODES = Snapshot()
_NO_INDEX = NodeIndex()
_NO_POSITIONS = np.empty(0, np.intp)
_NO_COLUMN: _Column[Any] = _Column(_NO_NODES, {})


class DecisionCache:
    """Share one between all DecisionInputs of a process."""

    def __init__(self) -> None:
        self._columns: LruCache[Hashable, _Column[Any]] = LruCache(MAX_NODE_COLUMNS)
        self._arrays: LruCache[Hashable, _ArrayColumn] = LruCache(MAX_NODE_COLUMNS)
        self._entries: LruCache[Hashable, _EntriesOfStates] = LruCache(MAX_NODE_ENTRIES)
        self._objects: LruCache[Hashable, _ObjectEntry] = LruCache(MAX_OBJECT_ENTRIES)
        self._lists: LruCache[Hashable, _ObjectEntry] = LruCache(MAX_NODE_LISTS)
        self._results: LruCache[Hashable, Any] = LruCache(MAX_RESULTS)
        self._changes = _NodeChanges(_NO_NODES, _NO_NODES, (), True)
        self._index = _IndexOfStates(_NO_NODES, _NO_INDEX)
        self._changed = _ChangedStates(self._changes, _NO_INDEX, _NO_POSITIONS, (), _NO_POSITIONS)
        self._move = _IndexMove(_NO_INDEX, _NO_INDEX, _NO_POSITIONS)
        self._periods = FreshPeriods()
        self._snapshots = 0

    def per_node(
        self, name: str, parameters: Hashable, of: Callable[[NodeState], V | None], snapshot: Snapshot
    ) -> Mapping[str, V]:
        """Node → of(its state), without those where it is None. `of` depends on the state and `parameters` only."""
        key = (name, parameters)
        column = self._columns.get(key) or _NO_COLUMN
        if column.snapshot.nodes is not snapshot.nodes:
            changed = self._changes_between(column.snapshot, snapshot).nodes
            values = _updated(column.values, of, changed, snapshot.nodes)
            column = _Column(snapshot, values)
            self._columns.put(key, column)
        return cast(Mapping[str, V], column.values)

    def node_array(
        self,
        name: str,
        parameters: Hashable,
        of: Callable[[Iterable[NodeState]], Sequence[float]],
        absent: float,
        snapshot: Snapshot,
        index: NodeIndex,
    ) -> FloatArray:
        """per_node as an array over `index`, which has all nodes of the snapshot; `absent` for others. of: a value of
        each state; it takes many, because a call for each of 5,000 costs more than the rest."""
        key = (name, parameters)
        column = self._arrays.get(key) or _ArrayColumn(_NO_NODES, _NO_INDEX, np.full(1, absent))
        if column.snapshot.nodes is not snapshot.nodes or column.index is not index:
            same = column.index is index
            values = column.values.copy() if same else column.values[self._old_positions(column.index, index)]
            changed = self._changed_states(column.snapshot, snapshot, index)
            values[changed.gone] = absent
            values[changed.positions] = of(changed.states)
            column = _ArrayColumn(snapshot, index, values)
            self._arrays.put(key, column)
        return column.values

    def node_entries(
        self,
        name: str,
        parameters: Hashable,
        of: Callable[[Sequence[NodeState]], NamedValues],
        snapshot: Snapshot,
        index: NodeIndex,
    ) -> NodeEntries:
        """node_array with any number of values of each state, each with a name."""
        key = (name, parameters)
        last = self._entries.get(key) or _EntriesOfStates(_NO_NODES, index, NodeEntries(index))
        if last.snapshot.nodes is not snapshot.nodes or last.index is not index:
            entries = last.entries if last.index is index else last.entries.moved(index)
            changed = self._changed_states(last.snapshot, snapshot, index)
            entries = entries.replaced(changed.positions, of(changed.states), changed.gone)
            last = _EntriesOfStates(snapshot, index, entries)
            self._entries.put(key, last)
        return last.entries

    def index(self, snapshot: Snapshot, others: Sequence[tuple[object, Collection[str]]] = ()) -> NodeIndex:
        """Of the snapshot's nodes, of `others`, and of some asked for before. The same object while it has them all and
        no node comes or goes. others: names, each with the immutable object that they are of."""
        current = self._index
        if current.snapshot.nodes is not snapshot.nodes:
            same = self._changes_between(current.snapshot, snapshot).same_names
            current = _IndexOfStates(snapshot, current.index if same else NodeIndex(snapshot.nodes))
        index = current.index
        if not all(self.per_object(owner, index, partial(index.covers, names)) for owner, names in others):
            most = 2 * (len(snapshot.nodes) + sum(len(names) for _, names in others))
            base = index if len(index) <= most else NodeIndex(snapshot.nodes)
            current = _IndexOfStates(snapshot, base.extended(chain.from_iterable(names for _, names in others)))
        self._index = current
        return current.index

    def positions(self, nodes: Sequence[str], index: NodeIndex) -> PositionArray:
        """index.positions, kept for a tuple: kube-scheduler asks about the same nodes again and again."""
        if not isinstance(nodes, tuple):
            return index.positions(nodes)
        return self._per_object(self._lists, nodes, index, lambda: index.positions(nodes))

    def per_object(self, owner: object, key: Hashable, make: Callable[[], V]) -> V:
        """make(), which depends on the immutable `owner` and `key` only, and is never None."""
        return self._per_object(self._objects, owner, key, make)

    def per_objects(self, key: Hashable, objects: Iterable[object], make: Callable[[], V]) -> V:
        """make(), which depends on `key` and the immutable `objects` only, and is never None. One object is the same
        when it is the very same: equal lists of 5,000 nodes would be compared name by name."""
        identity = (key, IdentityKey(objects))
        found = self._results.get(identity)
        if found is None:
            found = make()
            self._results.put(identity, found)
        return cast(V, found)

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
        period = self._periods.find(snapshot, now, others)
        if period is None:
            fresh_until = self.fresh_until(snapshot, self.index(snapshot))
            period = self._periods.begin(snapshot, now, others, min(until, _next_after(fresh_until, now)))
        found = period.tables.get(key)
        if found is None:
            found = make()
            period.tables.put(key, found)
        return cast(V, found)

    def fresh_until(self, snapshot: Snapshot, index: NodeIndex) -> FloatArray:
        """Monotonic seconds from which each node's data are stale; -inf while silent or provisional."""
        return self.node_array("fresh_until", None, _fresh_until, -np.inf, snapshot, index)

    def _per_object(
        self, entries: LruCache[Hashable, _ObjectEntry], owner: object, key: Hashable, make: Callable[[], V]
    ) -> V:
        found = entries.get((id(owner), key))
        if found is None or found.owner is not owner:
            found = _ObjectEntry(owner, make())
            entries.put((id(owner), key), found)
        return cast(V, found.value)

    def _old_positions(self, before: NodeIndex, after: NodeIndex) -> PositionArray:
        """Computed once, as all arrays move together."""
        move = self._move
        if move.before is not before or move.after is not after:
            move = self._move = _IndexMove(before, after, np.append(before.positions(after.nodes), ABSENT))
        return move.positions

    def _changed_states(self, before: Snapshot, after: Snapshot, index: NodeIndex) -> _ChangedStates:
        changes, changed = self._changes_between(before, after), self._changed
        if changed.changes is not changes or changed.index is not index:
            there = changes.nodes if changes.same_names else [node for node in changes.nodes if node in after.nodes]
            gone = () if changes.same_names else [node for node in changes.nodes if node not in after.nodes]
            states = list(map(after.nodes.__getitem__, there))
            changed = _ChangedStates(changes, index, index.positions(there), states, index.positions(gone))
            self._changed = changed
        return changed

    def _changes_between(self, before: Snapshot, after: Snapshot) -> _NodeChanges:
        """Computed once, as most columns move together."""
        changes = self._changes
        if changes.before.nodes is not before.nodes or changes.after.nodes is not after.nodes:
            self._count(after)
            changes = self._changes = _compare(before, after)
        return changes

    def _count(self, snapshot: Snapshot) -> None:
        self._snapshots += snapshot.nodes is not self._changes.after.nodes
        if self._snapshots >= SNAPSHOTS_PER_GENERATION:
            self._snapshots = 0
            self._columns.start_generation()
            self._arrays.start_generation()
            self._entries.start_generation()


def _updated(
    before: dict[str, V], of: Callable[[NodeState], V | None], changed: Iterable[str], states: Mapping[str, NodeState]
) -> dict[str, V]:
    values = before.copy()
    for node in changed:
        value = of(states[node]) if node in states else None
        if value is None:
            values.pop(node, None)
        else:
            values[node] = value
    return values


def _fresh_until(states: Iterable[NodeState]) -> Sequence[float]:
    return [state.fresh_until for state in states]


def _next_after(moments: FloatArray, now: float) -> float:
    later = moments[moments > now]
    return float(later.min()) if len(later) else float("inf")


def _compare(before: Snapshot, after: Snapshot) -> _NodeChanges:
    changed = changed_nodes(before, after)
    return _NodeChanges(before, after, changed, all(node in before.nodes and node in after.nodes for node in changed))
