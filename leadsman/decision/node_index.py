"""Nodes by position, so that what is known of each stands in arrays and all are compared at once.

An array over an index has one value more than the index has nodes. The last one, at ABSENT, is that of any other node.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from itertools import chain, repeat
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from leadsman.decision.columns import FloatArray

BoolArray = NDArray[np.bool_]
CodeArray = NDArray[np.int8]
PositionArray = NDArray[np.intp]

ABSENT = -1
"""The position of a node that the index does not have."""


class NodeIndex:
    """nodes: names, each once; a node's position is its place there. Never altered."""

    def __init__(self, nodes: Iterable[str] = ()) -> None:
        self._positions = {node: position for position, node in enumerate(dict.fromkeys(nodes))}
        self.nodes = tuple(self._positions)

    def __len__(self) -> int:
        return len(self.nodes)

    def extended(self, nodes: Iterable[str]) -> "NodeIndex":
        """With these nodes after its own."""
        return NodeIndex(chain(self.nodes, nodes))

    def covers(self, nodes: Collection[str]) -> bool:
        """Whether it has all of them."""
        return all(map(self._positions.__contains__, nodes))

    def position(self, node: str) -> int:
        return self._positions.get(node, ABSENT)

    def positions(self, nodes: Collection[str]) -> PositionArray:
        if len(nodes) > 1:
            with suppress(KeyError):  # All at once by itemgetter, in two thirds of the time.
                return np.fromiter(itemgetter(*nodes)(self._positions), np.intp, len(nodes))
        return np.fromiter(map(self._positions.get, nodes, repeat(ABSENT)), np.intp, len(nodes))

    def place(self, nodes: Collection[str], values: Sequence[float] | FloatArray, absent: float) -> FloatArray:
        """The values as an array over the index, `absent` elsewhere. A node that it does not have is left out."""
        placed = np.full(len(self) + 1, absent)
        placed[self.positions(nodes)] = values
        placed[ABSENT] = absent
        return placed

    def mask(self, nodes: Collection[str]) -> BoolArray:
        """Which nodes of the index are among these."""
        placed = np.zeros(len(self) + 1, np.bool_)
        placed[self.positions(nodes)] = True
        placed[ABSENT] = False
        return placed
