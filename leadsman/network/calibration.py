"""From errors on pairs left out to a 90 % interval and a bias to take away.

The size of an error is foretold by a linear model of its logarithm on what is known before measuring (`Signs`). Pairs
of like size form a class, and the class's own quantiles of error / size are the interval: split conformal prediction
within classes, whose promise needs only that pairs to come are like the pairs left out.

Decisions choose pairs by a low upper end and hold them to the slower direction. Among the chosen, those whose estimate
is too low gather [2]. So the upper end is a quantile regression of the truth on the class's upper end and the
estimate, moved until it holds for pairs left out [1]; and it is the slower direction that is beyond it in 1 of 20.

[1] Romano, Patterson, Candès, "Conformalized Quantile Regression", NeurIPS 2019.
[2] Jin, Candès, "Selection by Prediction with Conformal p-values", JMLR 24, 2023.
"""

from typing import NamedTuple

import numpy as np

from leadsman.network.measured_pairs import Floats, Indices
from leadsman.network.quantile_regression import regress_quantile

COVERAGE = 0.9
PAIRS_PER_CLASS = 300
MAX_CLASSES = 10
_FLOOR = 0.005
"""Errors of less than 0.5 % are alike."""
_SIDE = (1 - COVERAGE) / 2
_CLASS_END_ONLY = np.array([0.0, 0.0, 1.0])


class ErrorPredictors(NamedTuple):
    """Of pairs. spread: of the members. errors: mean absolute error of the measured pairs of the better- and of the
    worse-known node."""

    log_ms: Floats
    spread: Floats
    min_error: Floats
    max_error: Floats


class Calibration(NamedTuple):
    """Classes by foretold size, ascending. low, middle, high: quantiles of error / size in each; infinite when too
    few pairs were left out to promise anything. end: weights of 1, log_ms and the class's upper end in log_ms, which
    together are the upper end."""

    size_weights: Floats
    class_bounds: Floats
    low: Floats
    median: Floats
    high: Floats
    upper_end_weights: Floats = _CLASS_END_ONLY

    def offsets(self, signs: ErrorPredictors) -> tuple[Floats, Floats, Floats]:
        """Low end, median and high end of log(truth / estimate)."""
        low, middle, high = self._class_offsets(signs)
        return low, middle, np.maximum(middle, _upper_end_features(signs, high) @ self.upper_end_weights - signs.log_ms)

    def _class_offsets(self, signs: ErrorPredictors) -> tuple[Floats, Floats, Floats]:
        size = np.exp(_size_features(signs) @ self.size_weights)
        rank = np.searchsorted(self.class_bounds, size)
        return self.low[rank] * size, self.median[rank] * size, self.high[rank] * size


UNCALIBRATED = Calibration(
    np.zeros(6, np.float32), *(np.array(one, np.float32) for one in ((), (-np.inf,), (0,), (np.inf,)))
)


def calibrate(signs: ErrorPredictors, error: Floats, pair: Indices) -> Calibration:
    """error: log(measured / estimate) of pairs that the estimate had not seen. pair: a number 0, 1, … of each; two
    errors of one pair are its two directions."""
    if not len(error):
        return UNCALIBRATED
    slopes = _fit_size_weights(_size_features(signs), error)
    size = np.exp(_size_features(signs) @ slopes)
    classes = int(np.clip(len(error) // PAIRS_PER_CLASS, 1, MAX_CLASSES))
    bounds = np.quantile(size, np.arange(1, classes) / classes)
    rank = np.searchsorted(bounds, size)
    scores = [np.sort((error / size)[rank == one]) for one in range(classes)]
    middle, high = np.array([(np.median(one), _conformal_quantile(one, _SIDE)) for one in scores]).T
    above = _SIDE / slower_ratio(pair, error > high[rank] * size)
    low = -np.array([_conformal_quantile(-one[::-1], 2 * _SIDE - above) for one in scores])
    ends = _upper_end_features(signs, high[rank] * size)
    return Calibration(slopes, bounds, low, middle, high, _fit_upper_end(ends, signs.log_ms + error, above))


def slower_ratio(pair: Indices, beyond: Floats) -> float:
    """How much oftener the slower direction of a pair is beyond than one direction is: 1, always both, to 2, never
    both. Counted where both were measured, and one pair more of which one is; so without any it is 2."""
    often = np.bincount(pair, beyond)[np.bincount(pair) == 2]
    return float((np.count_nonzero(often) + 1) / ((often.sum() + 1) / 2))


def _fit_size_weights(terms: Floats, error: Floats) -> Floats:
    ridge = np.eye(terms.shape[1]) * 1e-3 * len(error)
    ridge[0, 0] = 1e-6
    return np.asarray(np.linalg.solve(terms.T @ terms + ridge, terms.T @ np.log(np.abs(error) + _FLOOR)))


def _fit_upper_end(ends: Floats, truth: Floats, above: float) -> Floats:
    """Weights of `ends`, so that `above` of the truths to come are above."""
    if not np.isfinite(ends).all():
        return _CLASS_END_ONLY
    found = regress_quantile(ends, truth, 1 - above)
    found[0] += _conformal_quantile(np.sort(truth - ends @ found), above)
    return found


def _conformal_quantile(ordered: Floats, above: float) -> float:
    """With n scores the k-th largest leaves k / (n + 1) of what comes above: k is rounded down."""
    outside = int((len(ordered) + 1) * above)
    return float(ordered[-outside]) if outside else np.inf


def _upper_end_features(signs: ErrorPredictors, high: Floats) -> Floats:
    return np.stack([np.ones_like(high), signs.log_ms, signs.log_ms + high], -1)


def _size_features(signs: ErrorPredictors) -> Floats:
    spread, centred = np.log(signs.spread + _FLOOR), signs.log_ms - 4
    errors = [np.log(one + _FLOOR) for one in (signs.min_error, signs.max_error)]
    return np.stack([np.ones_like(spread), spread, centred, centred**2, *errors], -1)
