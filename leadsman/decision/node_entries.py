"""Any number of named values of each node, such as its windows by peer, from which the column of one name is taken.

A dict for each of 5,000 nodes costs a look-up for each node and name: 1 ms a name, even where nobody measured it. Here
all entries stand in arrays sorted by the hash of their name, so that those of one name are a slice. The entries of
nodes that changed since stand beside them, until they are so many that sorting again pays.

Python's hash of a string has 64 bits and a key of its own in each process, so that nobody can choose two names with the
same one, and among 100,000 names two share one by chance in 1 of 4 billion processes.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from leadsman.decision.columns import FloatArray
from leadsman.decision.node_index import ABSENT, BoolArray, NodeIndex, PositionArray

MAX_NEWER_SHARE = 1 / 16
"""Of the sorted entries, that stand beside them. More make each column dearer, fewer mean sorting more often."""


_BOTH_ENDS: tuple[Literal["left", "right"], ...] = ("left", "right")


class NamedValues(Struct, frozen=True):
    """Of several nodes, one after the other. counts: how many each has; names and values: of all."""

    counts: Sequence[int]
    names: Iterable[str]
    values: FloatArray


class _Entries(Struct, frozen=True):
    """Arrays of the same length. node: whose entry it is, as a position; name: its hash."""

    node: PositionArray = np.empty(0, np.intp)
    name: NDArray[np.int64] = np.empty(0, np.int64)
    value: FloatArray = np.empty(0, np.float64)

    def select(self, which: "BoolArray | PositionArray | slice") -> "_Entries":
        return _Entries(self.node[which], self.name[which], self.value[which])

    def joined(self, other: "_Entries") -> "_Entries":
        return _Entries(
            np.concatenate((self.node, other.node)),
            np.concatenate((self.name, other.name)),
            np.concatenate((self.value, other.value)),
        )

    def merged(self, kept: BoolArray, other: "_Entries") -> "_Entries":
        """Those that are kept and the others, by name. One array after another: at 5,000 nodes each takes 0.7 MB, and
        three at a time would count three times in the peak of a process."""
        name = np.concatenate((self.name[kept], other.name))
        order = np.argsort(name, kind="stable")
        name = name[order]
        node = np.concatenate((self.node[kept], other.node))[order]
        return _Entries(node, name, np.concatenate((self.value[kept], other.value))[order])

    def moved(self, positions: PositionArray) -> "_Entries":
        entries = _Entries(positions[self.node], self.name, self.value)
        return entries.select(entries.node != ABSENT)


_NONE = _Entries()


class NodeEntries:
    """The entries of the nodes of an index. Never altered."""

    def __init__(
        self, index: NodeIndex, base: _Entries = _NONE, newer: _Entries = _NONE, old: BoolArray | None = None
    ) -> None:
        """base: by name. newer: in no order. old: the nodes whose entries in `base` no longer count."""
        self._index, self._base, self._newer = index, base, newer
        self._old = np.zeros(len(index) + 1, np.bool_) if old is None else old

    def column(self, name: str, absent: float) -> FloatArray:
        """The value of that name of each node of the index; `absent` where there is none."""
        placed, code = np.full(len(self._index) + 1, absent), hash(name)
        named = slice(*(np.searchsorted(self._base.name, code, side) for side in _BOTH_ENDS))
        placed[self._base.node[named]] = self._base.value[named]
        placed[self._old] = absent
        at = np.flatnonzero(self._newer.name == code)
        placed[self._newer.node[at]] = self._newer.value[at]
        return placed

    def replaced(self, positions: PositionArray, entries: NamedValues, gone: PositionArray) -> "NodeEntries":
        """With these entries of the nodes at `positions`, and none of those that are `gone`."""
        changed = np.zeros(len(self._index) + 1, np.bool_)
        changed[positions] = changed[gone] = True
        names = np.fromiter(map(hash, entries.names), np.int64, len(entries.values))
        added = _Entries(np.repeat(positions, entries.counts), names, entries.values)
        newer, old = self._newer.select(~changed[self._newer.node]).joined(added), self._old | changed
        if len(newer.name) <= MAX_NEWER_SHARE * len(self._base.name):
            return NodeEntries(self._index, self._base, newer, old)
        return NodeEntries(self._index, self._base.merged(~old[self._base.node], newer))

    def moved(self, index: NodeIndex) -> "NodeEntries":
        """Over another index, without the entries of nodes that it does not have."""
        positions = np.append(index.positions(self._index.nodes), ABSENT)
        old = np.zeros(len(index) + 1, np.bool_)
        old[positions[self._old]] = True
        old[ABSENT] = False
        return NodeEntries(index, self._base.moved(positions), self._newer.moved(positions), old)
