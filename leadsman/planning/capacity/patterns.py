"""Two templates on the same nodes: every pair of counts that a node holds, and what all nodes together hold.

A pod of the first template is worth `weight`, one of the second the rest of 1. No division over nodes is worth more
than the best pair of each node, which limits the sets; the weight with the least limit is searched for. Near it some
nodes hold more of the first and some more of the second: switching from one to the other gives the division that sets
need.
Gilmore and Gomory, A Linear Programming Approach to the Cutting-Stock Problem (1961).
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from leadsman.planning.capacity.problem import Ints, Mask, Problem, Template, copies, reserved

Floats = NDArray[np.float64]

_STEPS = 40
"""Of the search for a weight."""

_NEAR = 1e-6


class Patterns:
    """The pairs of one problem.

    free: (N, K). first, second: which nodes may have each.
    """

    def __init__(self, free: Ints, pair: tuple[Template, Template], first: Mask, second: Mask) -> None:
        self._sets = np.array([each.per_set for each in pair], np.float64)
        most = copies(free, pair[0].amounts) * first
        columns = []
        for pods in range(int(most.max(initial=0)) + 1):
            beside = copies(free - pods * pair[0].amounts, pair[1].amounts) * second
            columns.append(np.where(pods <= most, beside, -1))
        self._beside: Ints = np.array(columns)
        self.weight = self._least_limiting_weight()

    def values(self, weight: float) -> Floats:
        """What the best pair of each node is worth."""
        best: Floats = self._worth(weight).max(axis=0)
        return best

    def sets(self, value: float, weight: float) -> float:
        """How many sets are worth as much."""
        return value / float(weight * self._sets[0] + (1 - weight) * self._sets[1])

    def limit(self, weight: float) -> float:
        """No more sets than this are worth as much as the best pair of every node."""
        return self.sets(float(self.values(weight).sum()), weight)

    def divided(self, pods: tuple[int, int]) -> Ints | None:
        """(2, N): at least so many pods of each; None: switching nodes does not reach it."""
        few, many = (self._pairs(min(max(self.weight + near, 0.0), 1.0)) for near in (-_NEAR, _NEAR))
        gained = np.cumsum(many[0] - few[0]) + few[0].sum()
        switched = int(np.searchsorted(gained, pods[0])) + 1 if few[0].sum() < pods[0] else 0
        at = np.arange(few.shape[1]) < switched
        runs: Ints = np.where(at[None], many, few)
        return runs if (runs.sum(axis=1) >= pods).all() else None

    def _pairs(self, weight: float) -> Ints:
        first = self._worth(weight).argmax(axis=0)
        return np.array([first, self._beside[first, np.arange(len(first))]])

    def _worth(self, weight: float) -> Floats:
        worth = weight * np.arange(len(self._beside))[:, None] + (1 - weight) * self._beside
        return np.where(self._beside >= 0, worth, -1.0)

    def _least_limiting_weight(self) -> float:
        """A convex function over a linear one has no second valley."""
        low, high = 0.0, 1.0
        for _ in range(_STEPS):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            if self.limit(left) <= self.limit(right):
                high = right
            else:
                low = left
        return (low + high) / 2


@lru_cache(8)
def patterns_of(problem: Problem, first: int, second: int) -> Patterns:
    """Of two templates beside what is reserved now."""
    pair = problem.templates[first], problem.templates[second]
    return Patterns(problem.free - reserved(problem), pair, pair[0].places, pair[1].places)
