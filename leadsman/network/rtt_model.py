"""Combines ensemble and residual into one estimate, with the predictors of its error."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from leadsman.network.calibration import ErrorPredictors
from leadsman.network.embedding import EnsembleMember, mean_and_spread
from leadsman.network.measured_pairs import Floats, Indices, MeasuredPairs
from leadsman.network.residual import Residual, fit_residual, nystrom_features

_LARGEST_ERROR = 1.0


class RttModel(NamedTuple):
    """The ensemble with its residual. node_error: mean absolute error of each node's measured pairs, as a logarithm."""

    members: tuple[EnsembleMember, ...]
    residual: Residual
    node_error: Floats

    def at(self, one: Indices, other: Indices) -> ErrorPredictors:
        """Estimates and predictors of the pairs (one[k], other[k])."""
        return self._predictors(one, other, self.residual.at(one, other))

    def row(self, one: int) -> ErrorPredictors:
        """Estimates and predictors of `one` with every node."""
        return self._predictors(np.array([one]), slice(None), self.residual.row(one))

    def _predictors(self, one: Indices, other: Indices | slice, residual: Floats) -> ErrorPredictors:
        mean, spread = mean_and_spread(self.members, one, other)
        first, second = self.node_error[one], self.node_error[other]
        return ErrorPredictors(mean + residual, spread, np.minimum(first, second), np.maximum(first, second))


def fit_model(members: Sequence[EnsembleMember], pairs: MeasuredPairs, landmarks: Indices, steps: int) -> RttModel:
    """Fits the residual of the members. steps: of its regression."""
    error = pairs.log_ms - mean_and_spread(members, pairs.first, pairs.second)[0]
    residual = fit_residual(nystrom_features(members, landmarks), pairs, error, steps)
    size = np.minimum(np.abs(error), _LARGEST_ERROR)
    total = np.bincount(pairs.first, size, pairs.node_count) + np.bincount(pairs.second, size, pairs.node_count)
    return RttModel(tuple(members), residual, (total / np.maximum(pairs.degree, 1)).astype(np.float32))
