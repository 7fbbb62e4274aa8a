"""Keeps what decisions read of one snapshot: arrays by node, made when it changes, and what was derived from them.

A View holds for one snapshot, one policy and one state of the other sources, until a node's data become stale. It is
made from the view before: of 5,000 nodes a few report between two pods, and only those are computed again. What is
expensive and made of the view alone is made once (`once`), so that the next pods of a workload find it. It saves time
and changes no answer. Nothing that is kept is altered, so threads share views.

An array over a NodeIndex has one value more than the index has nodes. The last one, at ABSENT, is that of any other
node.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain, filterfalse, repeat
from operator import is_, itemgetter
from typing import Any, NamedTuple, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leadsman.runtime.lru import IdentityKey, LruCache
from leadsman.state.records import PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot, changed_nodes

V = TypeVar("V")

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
CodeArray = NDArray[np.int8]
PositionArray = NDArray[np.intp]

ABSENT = -1
"""The position of a node that the index does not have."""

MAX_OF_VIEW = 64
"""Values kept of one view, used lately. An evaluated bound takes 55 KB at 5,000 nodes."""

MAX_LASTING = 128
"""Values kept longer than a view, of up to 0.13 MB at 5,000 nodes: a reference's row in each source of delays and in
the estimates, the rewards of a type."""

MAX_LISTS = 4
"""Lists of nodes whose positions are kept: kube-scheduler asks about the same nodes again and again."""

MAX_VIEWS = 4
"""A pod is scored on the snapshot that it was filtered on, while others are filtered on newer ones."""

VIEW_REUSE_SECONDS = 1.0
"""After which an older view is dropped; by then it holds states that nothing else does."""

MAX_COLUMNS, UNASKED_VIEWS = 256, 128
"""Columns that the next view gets, of 40 KB at 5,000 nodes, unless nobody asked for them in so many views."""


class Memo(LruCache[Hashable, Any]):
    """Keeps the values used lately, by a key and the objects that they were made of. Objects are compared by identity:
    comparing lists of 5,000 nodes would go name by name."""

    def once(self, key: Hashable, make: Callable[[], V], *objects: object) -> V:
        """Returns make(), called once for this key and these objects: it depends on them only, and is never None."""
        identity = (key, IdentityKey(objects))
        found = self.get(identity)
        if found is None:
            found = make()
            self.put(identity, found)
        return cast(V, found)


class NodeIndex:
    """Gives each node a position in an array. nodes: their names, each once, in that order. Never altered."""

    def __init__(self, nodes: Iterable[str] = ()) -> None:
        self._positions = {node: position for position, node in enumerate(dict.fromkeys(nodes))}
        self.nodes = tuple(self._positions)
        self._lists = Memo(MAX_LISTS)

    def __len__(self) -> int:
        return len(self.nodes)

    def extended(self, nodes: Iterable[str]) -> "NodeIndex":
        """Returns an index with these nodes after its own; itself when it has them all."""
        new = self.without(nodes)
        return NodeIndex(chain(self.nodes, new)) if new else self

    def covers(self, nodes: Iterable[str]) -> bool:
        """Tells whether the index has all of these nodes."""
        return all(map(self._positions.__contains__, nodes))

    def without(self, nodes: Iterable[str]) -> Sequence[str]:
        """Returns those of the nodes that the index does not have."""
        return list(filterfalse(self._positions.__contains__, nodes))

    def position(self, node: str) -> int:
        return self._positions.get(node, ABSENT)

    def positions(self, nodes: Collection[str]) -> PositionArray:
        """Returns the position of each node; those of a tuple are kept."""
        if isinstance(nodes, tuple) and len(nodes) > 1:
            return self._lists.once("positions", lambda: self._find(nodes), nodes)
        return self._find(nodes)

    def _find(self, nodes: Collection[str]) -> PositionArray:
        if len(nodes) > 1:
            with suppress(KeyError):  # All at once by itemgetter, in two thirds of the time.
                return np.fromiter(itemgetter(*nodes)(self._positions), np.intp, len(nodes))
        return np.fromiter(map(self._positions.get, nodes, repeat(ABSENT)), np.intp, len(nodes))

    def place(self, nodes: Collection[str], values: Sequence[float] | FloatArray, absent: float) -> FloatArray:
        """Returns the values as an array over the index, `absent` elsewhere. A node that it does not have
        is left out."""
        placed = np.full(len(self) + 1, absent)
        placed[self.positions(nodes)] = values
        placed[ABSENT] = absent
        return placed

    def mask(self, nodes: Collection[str]) -> BoolArray:
        """Tells which nodes of the index are among these."""
        placed = np.zeros(len(self) + 1, np.bool_)
        placed[self._find(nodes)] = True
        placed[ABSENT] = False
        return placed


ValuesOf = Callable[[Sequence[NodeState]], Sequence[Any] | FloatArray]
"""Computes the value of each of some states."""


class _Column(NamedTuple):
    """A column of values that views share.

    asked: the number of the view that it was asked of last.
    """

    of: ValuesOf
    absent: Any
    values: NDArray[Any]
    asked: int

    def place(self, index: NodeIndex, nodes: Collection[str], states: Mapping[str, NodeState]) -> None:
        there = list(filter(states.__contains__, nodes))
        if len(there) < len(nodes):
            self.values[index.positions(list(nodes))] = self.absent
        self.values[index.positions(there)] = self.of(list(map(states.__getitem__, there)))


class View:
    """Holds for one snapshot at one moment, and until the freshness of any of its nodes changes.

    sources: what else it depends on: the policy, other measurements, estimates. index: of all nodes of which anything
    is known. fresh: whether each node's data may be used. lasting: for what is made of objects that outlive the view.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        now: float,
        sources: Sequence[object],
        until: float,
        index: NodeIndex,
        before: "View | None",
        lasting: Memo,
    ) -> None:
        """before: a view whose columns are brought up to date; its index is the beginning of this one."""
        self.snapshot, self.sources, self.index, self.since, self.lasting = snapshot, sources, index, now, lasting
        self._number: int = before._number + 1 if before else 0
        self._memo: Memo | None = Memo(MAX_OF_VIEW)
        self._columns = dict[Hashable, _Column]()
        if before:
            self._advance(before)
        fresh_until = self.column("fresh_until", lambda states: [each.fresh_until for each in states], -np.inf)
        later = fresh_until[fresh_until > now]
        self.fresh: BoolArray = fresh_until > now
        self.until = min(until, float(later.min()) if len(later) else float("inf"))

    def holds(self, snapshot: Snapshot, now: float, sources: Sequence[object]) -> bool:
        """Tells whether the view is of this snapshot, moment and sources."""
        same = self.snapshot is snapshot and len(sources) == len(self.sources)
        return same and self.since <= now < self.until and all(map(is_, sources, self.sources))

    def once(self, key: Hashable, make: Callable[[], V], *objects: object) -> V:
        """Returns make(), called once while the view holds. It depends on the view, `key` and the immutable `objects`
        only, and is never None."""
        memo = self._memo
        return make() if memo is None else memo.once(key, make, *objects)

    def leave(self) -> None:
        """Keeps nothing any more that was made of the view. What was refers to it, and only a collection of garbage
        would end such a circle: dozens of views later, of half a megabyte each at 5,000 nodes."""
        self._memo = None

    def column(self, key: Hashable, of: ValuesOf, absent: Any) -> NDArray[Any]:
        """Returns the value of each node of the index; `absent` where there is no state. Floats when `absent` is one,
        else objects. of: the value of each of some states, by them and `key` alone; a call for each of 5,000 nodes
        would cost more than the rest."""
        column = self._columns.get(key)
        if column is None:
            values = np.full(len(self.index) + 1, absent, np.float64 if isinstance(absent, float) else object)
            column = _Column(of, absent, values, -1)
            column.place(self.index, self.snapshot.nodes, self.snapshot.nodes)
            if len(self._columns) >= MAX_COLUMNS:  # planners ask one view about thousands of references
                del self._columns[next(iter(self._columns))]
        if column.asked != self._number:
            self._columns[key] = column._replace(asked=self._number)
        return column.values

    def _advance(self, before: "View") -> None:
        changed, states = changed_nodes(before.snapshot, self.snapshot), self.snapshot.nodes
        grown = len(self.index) - len(before.index)
        columns = sorted(before._columns.items(), key=lambda each: -each[1].asked)[:MAX_COLUMNS]
        for key, column in columns:
            if self._number - column.asked < UNASKED_VIEWS:
                # The value at ABSENT is an absent one, so what is new may stand before or after it.
                values = np.append(column.values, [column.absent] * grown) if grown else column.values.copy()
                self._columns[key] = column = column._replace(values=values)
                column.place(self.index, changed, states)


_NO_WINDOWS: Mapping[str, PeerLatency] = {}


def peer_windows(state: NodeState | None) -> Mapping[str, PeerLatency]:
    """Maps each peer to the window that the node's agent measured."""
    return _NO_WINDOWS if state is None or state.latency is None else state.latency.peers


class Views:
    """Keeps the views used lately; share one between all DecisionInputs of a process. Replaced as a whole, so that
    concurrent readers see the old ones or the new."""

    def __init__(self) -> None:
        self.lasting = Memo(MAX_LASTING)
        self._views: tuple[View, ...] = ()

    def find(self, snapshot: Snapshot, now: float, sources: Sequence[object], names: Collection[str]) -> View | None:
        """Returns a kept view whose index has the names; None: there is none."""
        for view in self._views:
            if view.holds(snapshot, now, sources) and view.index.covers(names):
                return view
        return None

    def begin(
        self, snapshot: Snapshot, now: float, sources: Sequence[object], names: Sequence[Collection[str]], until: float
    ) -> View:
        """Makes a new view. names: that its index must have beside the snapshot's. until: the sources stay so long."""
        before = self._views[0] if self._views else None
        index = (before.index if before else NodeIndex()).extended(chain(snapshot.nodes, *names))
        most = 2 * (len(snapshot.nodes) + sum(map(len, names)))
        if before and index is not before.index and len(index) > most:
            index, before = NodeIndex(chain(snapshot.nodes, *names)), None
        view = View(snapshot, now, sources, until, index, before, self.lasting)
        views = self._views
        recent = [each for each in views if now - each.since < VIEW_REUSE_SECONDS][: MAX_VIEWS - 1]
        self._views = (view, *recent)
        for each in views:
            if each not in recent:
                each.leave()
        return view


# Values beside their nodes. An array costs a tenth of a dict, and most values are only ever asked for all at once.


class Column(Mapping[str, float]):
    """Maps nodes, each once, to the `numbers` beside them. Its dict is made when one node is first asked for."""

    def __init__(self, nodes: Sequence[str], numbers: ArrayLike) -> None:
        self.nodes, self.numbers = nodes, np.asarray(numbers, np.float64)

    @classmethod
    def of(cls, values: Mapping[str, float]) -> Self:
        return values if isinstance(values, cls) else cls(list(values), list(values.values()))

    def values_for(self, nodes: Sequence[str], otherwise: float) -> FloatArray:
        """Returns the values of these nodes; `otherwise` where there is none."""
        if nodes is self.nodes:
            return self.numbers
        return np.array(list(map(self._by_node.get, nodes, repeat(otherwise))), np.float64)

    def __getitem__(self, node: str) -> float:
        return self._by_node[node]

    def __iter__(self) -> Any:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def _by_node(self) -> dict[str, float]:
        return dict(zip(self.nodes, self.numbers.tolist(), strict=True))


def median(values: FloatArray) -> float:
    """Returns the median of at least one value. numpy.median would import numpy.ma: 2 MB, in the middle of
    a request."""
    middle = len(values) // 2
    ordered = np.partition(values, (middle, middle - 1) if len(values) % 2 == 0 else middle)
    return float(ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2)
