"""Calibrates estimates: from errors on pairs left out to a 90 % interval and a correction of the bias.

The size of an error is predicted by a linear model of its logarithm on what is known before measuring
(`ErrorPredictors`). Pairs of similar size form a class, and the class's own quantiles of error / size are the interval:
split conformal prediction within classes, which assumes only that future pairs are like the pairs left out.

Decisions choose pairs by a low upper end and hold them to the slower direction. Chosen so, pairs whose estimate is too
low are overrepresented [2]. So the upper end is a quantile regression of the truth on the class's upper end and the
estimate, shifted until it holds for pairs left out [1]; the slower direction is beyond it in 1 of 20.

[1] Romano, Patterson, Candès, "Conformalized Quantile Regression", NeurIPS 2019.
[2] Jin, Candès, "Selection by Prediction with Conformal p-values", JMLR 24, 2023.
"""

from typing import NamedTuple

import numpy as np

from leadsman.network.measured_pairs import Floats, Indices

# Quantile regression [1]: weights of features so that a given share of the values lies below their sum.
#
# `regress_upper_end` shifts them until that holds for values to come that are like these [3].
#
# Least squares again and again, each value weighed by its side and the inverse of its distance: a majorization of
# the check loss [2]. Its corner is narrowed step by step, down to `_NARROWEST`.
#
# [1] Koenker, Bassett, "Regression Quantiles", Econometrica 46, 1978.
# [2] Hunter, Lange, "Quantile Regression via an MM Algorithm", J. Computational and Graphical Statistics 9, 2000.
# [3] Romano, Patterson, Candès, "Conformalized Quantile Regression", NeurIPS 2019.

_WIDEST, _NARROWEST, _STEPS = 0.3, 0.01, 40
"""Says how wide the corner may be, in the values' unit; here logarithms of round trips, of which 1 % is nothing."""
_RIDGE = 1e-4


def regress_quantile(features: Floats, values: Floats, share: float) -> Floats:
    """Returns weights for the columns of `features`, of which the first is ones; a row is for one value, and columns
    that never vary get no weight."""
    middle, scale = features[:, 1:].mean(0), np.maximum(features[:, 1:].std(0), 1e-9)
    terms = np.column_stack([features[:, 0], (features[:, 1:] - middle) / scale])
    ridge = np.diag([0.0] + [_RIDGE * len(values)] * len(scale))
    weights = np.zeros(terms.shape[1])
    weights[0] = np.quantile(values, share)
    for corner in np.geomspace(_WIDEST, _NARROWEST, _STEPS):
        rest = values - terms @ weights
        weighed = (terms * (np.where(rest > 0, share, 1 - share) / np.maximum(np.abs(rest), corner))[:, None]).T
        weights = np.linalg.solve(weighed @ terms + ridge, weighed @ values)
    slopes = weights[1:] / scale
    return np.append(weights[0] - slopes @ middle, slopes)


def regress_upper_end(features: Floats, values: Floats, above: float) -> Floats:
    """Returns weights so that a share `above` of future values is above their sum. Infinite when the values are too few
    for one of them to be above."""
    if not conformal_rank(len(values), above):
        return np.array([np.inf] + [0.0] * (features.shape[1] - 1))
    weights = regress_quantile(features, values, 1 - above)
    weights[0] += conformal_quantile(np.sort(values - features @ weights), above)
    return weights


def conformal_quantile(ordered: Floats, above: float) -> float:
    """Returns the score that at most a share `above` of future ones exceeds: k / (n + 1) of them are above the k-th
    largest of n. Infinite when n is too small."""
    outside = conformal_rank(len(ordered), above)
    return float(ordered[-outside]) if outside else np.inf


def conformal_rank(scores: int, above: float) -> int:
    """Returns the k of `conformal_quantile`: the share of n + 1, rounded down."""
    return int((scores + 1) * above)


COVERAGE = 0.9
PAIRS_PER_CLASS = 300
MAX_CLASSES = 10
_FLOOR = 0.005
"""Errors of less than 0.5 % count as equal."""
_SIDE = (1 - COVERAGE) / 2
_CLASS_END_ONLY = np.array([0.0, 0.0, 1.0])


class ErrorPredictors(NamedTuple):
    """Predicts the size of pairs' errors, by one value for each pair.

    log_ms: the estimate.
    spread: standard deviation of the ensemble's members.
    min_error, max_error: mean absolute error of the measured pairs of the better and of the worse estimated node.
    """

    log_ms: Floats
    spread: Floats
    min_error: Floats
    max_error: Floats


class Calibration(NamedTuple):
    """Gives intervals by the class of the predicted error's size.

    size_weights: of the features that predict the size.
    class_bounds: sizes between the classes, ascending.
    low, median, high: quantiles of error / size in each class; infinite when too few pairs were left out.
    upper_end_weights: of 1, log_ms and the class's upper end in log_ms, whose sum is the upper end.
    """

    size_weights: Floats
    class_bounds: Floats
    low: Floats
    median: Floats
    high: Floats
    upper_end_weights: Floats = _CLASS_END_ONLY

    def offsets(self, predictors: ErrorPredictors) -> tuple[Floats, Floats, Floats]:
        """Returns low end, median and high end of log(truth / estimate)."""
        low, middle, high = self._class_offsets(predictors)
        return (
            low,
            middle,
            np.maximum(middle, _upper_end_features(predictors, high) @ self.upper_end_weights - predictors.log_ms),
        )

    def _class_offsets(self, predictors: ErrorPredictors) -> tuple[Floats, Floats, Floats]:
        size = np.exp(_size_features(predictors) @ self.size_weights)
        rank = np.searchsorted(self.class_bounds, size)
        return self.low[rank] * size, self.median[rank] * size, self.high[rank] * size


UNCALIBRATED = Calibration(
    np.zeros(6, np.float32), *(np.array(one, np.float32) for one in ((), (-np.inf,), (0,), (np.inf,)))
)


def calibrate(predictors: ErrorPredictors, error: Floats, pair: Indices) -> Calibration:
    """Calibrates on pairs that were left out of the fit.

    error: log(measured / estimate).
    pair: the number, 0, 1, …, of the pair of each error; two errors of one pair are its two directions.
    """
    if not len(error):
        return UNCALIBRATED
    slopes = _fit_size_weights(_size_features(predictors), error)
    size = np.exp(_size_features(predictors) @ slopes)
    classes = int(np.clip(len(error) // PAIRS_PER_CLASS, 1, MAX_CLASSES))
    bounds = np.quantile(size, np.arange(1, classes) / classes)
    rank = np.searchsorted(bounds, size)
    scores = [np.sort((error / size)[rank == one]) for one in range(classes)]
    middle, high = np.array([(np.median(one), conformal_quantile(one, _SIDE)) for one in scores]).T
    above = _SIDE / slower_ratio(pair, error > high[rank] * size)
    low = -np.array([conformal_quantile(-one[::-1], 2 * _SIDE - above) for one in scores])
    ends = _upper_end_features(predictors, high[rank] * size)
    weights = _CLASS_END_ONLY
    if np.isfinite(ends).all():  # A share `above` of future truths is above their sum.
        weights = regress_upper_end(ends, predictors.log_ms + error, above)
    return Calibration(slopes, bounds, low, middle, high, weights)


def slower_ratio(pair: Indices, beyond: Floats) -> float:
    """Returns the ratio of pairs with at least one direction beyond the end to directions beyond it: 1 (always both) to
    2 (never both). Counted over pairs with both directions measured, plus one pair with one beyond; so without any it
    is 2."""
    often = np.bincount(pair, beyond)[np.bincount(pair) == 2]
    return float((np.count_nonzero(often) + 1) / ((often.sum() + 1) / 2))


def _fit_size_weights(terms: Floats, error: Floats) -> Floats:
    ridge = np.eye(terms.shape[1]) * 1e-3 * len(error)
    ridge[0, 0] = 1e-6
    return np.asarray(np.linalg.solve(terms.T @ terms + ridge, terms.T @ np.log(np.abs(error) + _FLOOR)))


def _upper_end_features(predictors: ErrorPredictors, high: Floats) -> Floats:
    return np.stack([np.ones_like(high), predictors.log_ms, predictors.log_ms + high], -1)


def _size_features(predictors: ErrorPredictors) -> Floats:
    spread, centred = np.log(predictors.spread + _FLOOR), predictors.log_ms - 4
    errors = [np.log(one + _FLOOR) for one in (predictors.min_error, predictors.max_error)]
    return np.stack([np.ones_like(spread), spread, centred, centred**2, *errors], -1)
