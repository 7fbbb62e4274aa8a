"""From errors on pairs left out to a 90 % interval and a bias to take away.

The size of an error is foretold by a linear model of its logarithm on what is known before measuring (`Signs`). Pairs
of like size form a class, and the class's own quantiles of error / size are the interval: split conformal prediction
within classes [1], whose promise needs only that pairs to come are like the pairs left out.

[1] Romano, Patterson, Candès, "Conformalized Quantile Regression", NeurIPS 2019.
"""

from typing import NamedTuple

import numpy as np

from topology.pairs import Floats

COVERAGE = 0.9
PAIRS_A_CLASS = 300
MOST_CLASSES = 10
_FLOOR = 0.005
"""Errors of less than 0.5 % are alike."""


class Signs(NamedTuple):
    """Of pairs. spread: of the members. errors: mean absolute error of the measured pairs of the better- and of the
    worse-known node."""

    log_ms: Floats
    spread: Floats
    least_error: Floats
    largest_error: Floats


class Calibration(NamedTuple):
    """Classes by foretold size, ascending. low, middle, high: quantiles of error / size in each; infinite when too
    few pairs were left out to promise anything."""

    slopes: Floats
    bounds: Floats
    low: Floats
    middle: Floats
    high: Floats

    def offsets(self, signs: Signs) -> tuple[Floats, Floats, Floats]:
        """Low end, median and high end of log(truth / estimate)."""
        size = np.exp(_terms(signs) @ self.slopes)
        rank = np.searchsorted(self.bounds, size)
        return self.low[rank] * size, self.middle[rank] * size, self.high[rank] * size


UNKNOWN = Calibration(
    np.zeros(6, np.float32), *(np.array(one, np.float32) for one in ((), (-np.inf,), (0,), (np.inf,)))
)


def calibrate(signs: Signs, error: Floats) -> Calibration:
    """error: log(measured / estimate) of pairs that the estimate had not seen."""
    if not len(error):
        return UNKNOWN
    terms = _terms(signs)
    ridge = np.eye(terms.shape[1]) * 1e-3 * len(error)
    ridge[0, 0] = 1e-6
    slopes = np.linalg.solve(terms.T @ terms + ridge, terms.T @ np.log(np.abs(error) + _FLOOR))
    size = np.exp(terms @ slopes)
    classes = int(np.clip(len(error) // PAIRS_A_CLASS, 1, MOST_CLASSES))
    bounds = np.quantile(size, np.arange(1, classes) / classes)
    rank = np.searchsorted(bounds, size)
    quantiles = [_quantiles((error / size)[rank == one]) for one in range(classes)]
    return Calibration(slopes, bounds, *np.array(quantiles).T)


def _quantiles(scores: Floats) -> tuple[float, float, float]:
    """With n scores the k-th smallest and largest leave out 2k / (n + 1) of what comes: k is rounded down."""
    ordered = np.sort(scores)
    outside = int((len(ordered) + 1) * (1 - COVERAGE) / 2)
    if not outside:
        return -np.inf, float(np.median(ordered)) if len(ordered) else 0.0, np.inf
    return float(ordered[outside - 1]), float(np.median(ordered)), float(ordered[-outside])


def _terms(signs: Signs) -> Floats:
    spread, centred = np.log(signs.spread + _FLOOR), signs.log_ms - 4
    errors = [np.log(one + _FLOOR) for one in (signs.least_error, signs.largest_error)]
    return np.stack([np.ones_like(spread), spread, centred, centred**2, *errors], -1)
