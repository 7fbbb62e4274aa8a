"""Members and residual together: one estimate, and what foretells its error."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from topology.calibration import Signs
from topology.embedding import Member, mean_and_spread
from topology.pairs import Floats, Indices, Pairs
from topology.residual import Residual, features, regress

_LARGEST_ERROR = 1.0


class Model(NamedTuple):
    """error: mean absolute error of each node's measured pairs, as a logarithm."""

    members: tuple[Member, ...]
    residual: Residual
    error: Floats

    def at(self, one: Indices, other: Indices) -> Signs:
        """Of the pairs (one[k], other[k])."""
        return self._signs(one, other, self.residual.at(one, other))

    def row(self, one: int) -> Signs:
        """Of `one` with every node."""
        return self._signs(np.array([one]), slice(None), self.residual.row(one))

    def _signs(self, one: Indices, other: Indices | slice, residual: Floats) -> Signs:
        mean, spread = mean_and_spread(self.members, one, other)
        first, second = self.error[one], self.error[other]
        return Signs(mean + residual, spread, np.minimum(first, second), np.maximum(first, second))


def model(members: Sequence[Member], pairs: Pairs, landmarks: Indices, steps: int) -> Model:
    error = pairs.log_ms - mean_and_spread(members, pairs.first, pairs.second)[0]
    residual = regress(features(members, landmarks), pairs, error, steps)
    size = np.minimum(np.abs(error), _LARGEST_ERROR)
    total = np.bincount(pairs.first, size, pairs.nodes) + np.bincount(pairs.second, size, pairs.nodes)
    return Model(tuple(members), residual, (total / np.maximum(pairs.degree, 1)).astype(np.float32))
