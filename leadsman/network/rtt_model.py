"""Combines ensemble and residual into one estimate, with the predictors of its error."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from leadsman.network.calibration import ErrorPredictors
from leadsman.network.embedding import EnsembleMember, mean_and_spread
from leadsman.network.measured_pairs import Floats, Indices, MeasuredPairs

# Corrects the embedding's errors by those on measured pairs of similar nodes.
#
# Gaussian process regression on pairs with a product kernel [1]: the errors of (i, j) and (k, l) are as similar as i is
# to k and j to l. Two nodes are similar when the members see the same distances from both, as hosts of one site. The
# kernel is `SELF_KERNEL` for a node with itself, plus two exponentials of the profiles' distance, held as features over
# landmarks (Nyström [2]), so that memory is O(n) and an estimate O(landmarks).
#
# [1] Bonilla, Chai, Williams, "Multi-task Gaussian Process Prediction", NIPS 2007.
# [2] Williams, Seeger, "Using the Nyström Method to Speed Up Kernel Machines", NIPS 2000.

SELF_KERNEL = 0.2
KERNEL_WEIGHTS_AND_LENGTHS = ((0.3, 0.1), (0.5, 0.3))
"""Weight and length, as the difference of log round trips seen by two nodes: 10 % (one site), 30 % (one region)."""
_NOISE = 0.2
"""Variance of a measured pair's own error, as a share of the kernel's: routes that no other pair shares."""
_SMALLEST_EIGENVALUE = 1e-4
_TOLERANCE = 1e-9
MAX_DENSE_NODES = 1024
"""Up to this many nodes, one product of matrices is faster than a pass over the pairs for each
landmark."""
MAX_SHARED_ERROR = 0.2
"""Errors are cut to this before they are shared: a wrong measurement shifts other pairs by no more."""


class Residual(NamedTuple):
    """Corrects the estimate of pair (i, j) by features[:, i] · weights[:, j] + weights[:, i] · features[:, j].

    One row for each landmark.
    """

    features: Floats
    weights: Floats

    def at(self, one: Indices, other: Indices) -> Floats:
        """Returns the corrections of the pairs (one[k], other[k])."""
        if self.features.shape[1] <= MAX_DENSE_NODES:
            half = self.features.T @ self.weights
            return half[one, other] + half[other, one]
        total = np.zeros(len(one), np.float32)
        for feature, weight in zip(self.features, self.weights, strict=True):
            total += feature.take(one) * weight.take(other) + weight.take(one) * feature.take(other)
        return total

    def row(self, one: int) -> Floats:
        """Returns the corrections of `one` with every node."""
        return self.features[:, one] @ self.weights + self.weights[:, one] @ self.features


def nystrom_features(members: Sequence[EnsembleMember], landmarks: Indices) -> Floats:
    """Returns the kernel's features, one orthogonal row a landmark: inner products of columns are the kernel."""
    nodes = members[0].heights.size
    profile = mean_and_spread(members, np.arange(nodes)[:, None], landmarks[None, :])[0]
    to_landmarks = _kernel(profile, landmarks)
    values, vectors = np.linalg.eigh(to_landmarks[landmarks].astype(np.float64))
    kept = values > values.max(initial=0) * _SMALLEST_EIGENVALUE
    features = to_landmarks @ (vectors[:, kept] / np.sqrt(values[kept])).astype(np.float32)
    return np.ascontiguousarray(np.linalg.eigh(features.T @ features)[1].T @ features.T)


def _kernel(profile: Floats, landmarks: Indices) -> Floats:
    """Returns one row a node, one column a landmark. Nodes are compared by what they see of third ones, not of each
    other."""
    square = (profile * profile).sum(1)
    difference = square[:, None] + square[landmarks] - 2 * profile @ profile[landmarks].T
    of_each_other = (profile - profile[landmarks].diagonal()) ** 2
    difference -= of_each_other
    difference[landmarks] -= of_each_other[landmarks].T
    distance = np.sqrt(np.maximum(difference, 0) / max(1, len(landmarks) - 2))
    kernel = sum(weight * np.exp(-distance / np.float32(length)) for weight, length in KERNEL_WEIGHTS_AND_LENGTHS)
    return np.asarray(kernel, np.float32)


class _Weights(NamedTuple):
    """The unknowns. shared: symmetric, of features with features. own: of features with each node.

    Without noise, pair (i, j) is features[:, i] · (shared · features[:, j] + own[:, j]) + own[:, i] · features[:, j].
    """

    shared: Floats
    own: Floats

    def times(self, other: "_Weights") -> float:
        return float(np.vdot(self.shared, other.shared) + np.vdot(self.own, other.own))

    def plus(self, factor: float, other: "_Weights") -> "_Weights":
        return _Weights(*(one + np.float32(factor) * another for one, another in zip(self, other, strict=True)))


def fit_residual(features: Floats, pairs: MeasuredPairs, error: Floats, steps: int) -> Residual:
    """Fits the correction to the measured pairs' errors, log(measured / estimate).

    Ridge regression by conjugate gradients, preconditioned with the diagonal that the normal equations would have if
    all pairs were measured equally often.
    """
    scale = (features * features).sum(1)
    often = 2 * len(error) / max(1, pairs.node_count**2)
    diagonal = _Weights(
        0.5 + 0.5 / _NOISE * often * np.outer(scale, scale),
        1 / SELF_KERNEL + pairs.degree / _NOISE * scale[:, None] / max(1, pairs.node_count),
    )
    rest = _gradient(features, pairs, np.clip(error, -MAX_SHARED_ERROR, MAX_SHARED_ERROR).astype(np.float32))
    solution = _Weights(*(np.zeros_like(one) for one in rest))
    along, square = solution, 1.0
    for _ in range(steps):
        eased = _Weights(*((one / by).astype(np.float32) for one, by in zip(rest, diagonal, strict=True)))
        before, square = square, rest.times(eased)
        if square <= _TOLERANCE:
            break
        along = eased.plus(square / before, along)
        image = _normal_equations(features, pairs, along)
        length = square / along.times(image)
        solution, rest = solution.plus(length, along), rest.plus(-length, image)
    return _residual(features, solution)


def _normal_equations(features: Floats, pairs: MeasuredPairs, weights: _Weights) -> _Weights:
    fitted = _residual(features, weights).at(pairs.first, pairs.second)
    return _Weights(weights.shared * np.float32(0.5), weights.own / np.float32(SELF_KERNEL)).plus(
        1, _gradient(features, pairs, fitted)
    )


def _gradient(features: Floats, pairs: MeasuredPairs, error: Floats) -> _Weights:
    gathered = _sum_peer_features(features, pairs, error / np.float32(_NOISE))
    return _Weights(np.float32(0.5) * (gathered @ features.T), gathered)


def _residual(features: Floats, weights: _Weights) -> Residual:
    return Residual(features, weights.own + np.float32(0.5) * (weights.shared @ features))


def _sum_peer_features(features: Floats, pairs: MeasuredPairs, share: Floats) -> Floats:
    """Returns each node's peers' features, weighted by the share of the pair."""
    nodes = pairs.node_count
    if nodes <= MAX_DENSE_NODES:
        matrix = np.zeros((nodes, nodes), np.float32)
        matrix[pairs.first, pairs.second] = matrix[pairs.second, pairs.first] = share
        return features @ matrix
    gathered = np.empty_like(features)
    for row, feature in zip(gathered, features, strict=True):
        row[:] = np.bincount(pairs.first, feature.take(pairs.second) * share, nodes)
        row += np.bincount(pairs.second, feature.take(pairs.first) * share, nodes)
    return gathered


_LARGEST_ERROR = 1.0


class RttModel(NamedTuple):
    """The ensemble with its residual. node_error: mean absolute error of each node's measured pairs, as a logarithm."""

    members: tuple[EnsembleMember, ...]
    residual: Residual
    node_error: Floats

    def at(self, one: Indices, other: Indices) -> ErrorPredictors:
        """Returns estimates and predictors of the pairs (one[k], other[k])."""
        return self._predictors(one, other, self.residual.at(one, other))

    def row(self, one: int) -> ErrorPredictors:
        """Returns estimates and predictors of `one` with every node."""
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
