"""Quantile regression [1]: weights of features so that a given share of the values lies below their sum.

`regress_upper_end` shifts them until that holds for values to come that are like these [3].

Least squares again and again, each value weighed by its side and the inverse of its distance: a majorization of
the check loss [2]. Its corner is narrowed step by step, down to `_NARROWEST`.

[1] Koenker, Bassett, "Regression Quantiles", Econometrica 46, 1978.
[2] Hunter, Lange, "Quantile Regression via an MM Algorithm", Journal of Computational and Graphical Statistics 9, 2000.
[3] Romano, Patterson, Candès, "Conformalized Quantile Regression", NeurIPS 2019.
"""

import numpy as np

from leadsman.network.measured_pairs import Floats

_WIDEST, _NARROWEST, _STEPS = 0.3, 0.01, 40
"""Of the corner, in the values' unit; here logarithms of round trips, of which 1 % is nothing."""
_RIDGE = 1e-4


def regress_quantile(features: Floats, values: Floats, share: float) -> Floats:
    """features: one row a value, the first column ones. Weights for their columns; columns that never vary get none."""
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
    """Weights so that a share `above` of future values is above their sum. Infinite when the values are too few for
    one of them to be above."""
    if not conformal_rank(len(values), above):
        return np.array([np.inf] + [0.0] * (features.shape[1] - 1))
    weights = regress_quantile(features, values, 1 - above)
    weights[0] += conformal_quantile(np.sort(values - features @ weights), above)
    return weights


def conformal_quantile(ordered: Floats, above: float) -> float:
    """With n scores, k / (n + 1) of future scores are above the k-th largest; infinite without a k."""
    outside = conformal_rank(len(ordered), above)
    return float(ordered[-outside]) if outside else np.inf


def conformal_rank(scores: int, above: float) -> int:
    """The k of `conformal_quantile`: the share of n + 1, rounded down."""
    return int((scores + 1) * above)
