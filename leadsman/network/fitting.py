"""Fits the estimates of all pairs to all measurements, centrally.

`fit_network` spends about `_PAIR_STEPS` on descent up to some 13,000 nodes of 16 peers, and grows with the pairs from
there on. 5,000 nodes get fewer members and fewer steps than 500; a warm start continues from the previous fit.
"""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leadsman.network.calibration import UNCALIBRATED, Calibration, ErrorPredictors, calibrate
from leadsman.network.embedding import ENSEMBLE_SHAPES, DescentSchedule, EnsembleMember, descend, random_member
from leadsman.network.estimates import NetworkEstimates, fit_group_medians
from leadsman.network.former_pairs import FormerPairs, no_former_pairs
from leadsman.network.measured_pairs import Floats, Indices, MeasuredPairs
from leadsman.network.rtt_model import fit_model

# Carries a fit over to the next one, while nodes and pairs come and go.

MAX_LOG_CHANGE = 0.25
"""A pair has moved when its delay grew or shrank by more than this, as a logarithm: 28 %. Medians of an idle path vary
much less."""


def carry_over(before: NetworkEstimates, previous: Indices, pairs: MeasuredPairs) -> NetworkEstimates:
    """Renumbers `before`'s nodes as in `pairs`: only a start for `fit_network`, its estimates are not valid.

    previous: for each node of `pairs`, its number in `before`; -1: it joined. A node that joined starts at the point of
    its nearest measured peer.
    """
    place = _starting_nodes(previous, pairs)
    members = tuple(
        each._replace(points=each.points[:, place].copy(), heights=each.heights[place].copy())
        for each in before.model.members
    )
    return before._replace(pairs=renumber_pairs(before.pairs, previous), model=before.model._replace(members=members))


def renumber_pairs(pairs: MeasuredPairs, previous: Indices) -> MeasuredPairs:
    """Returns the pairs under the new numbers, without those of nodes that left. previous: as for `carry_over`."""
    number = np.full(pairs.node_count, -1)
    number[previous[previous >= 0]] = np.flatnonzero(previous >= 0)
    one, other = number[pairs.first], number[pairs.second]
    low, high = np.minimum(one, other), np.maximum(one, other)
    kept = np.flatnonzero(low >= 0)
    kept = kept[np.argsort(low[kept] * len(previous) + high[kept])]
    return MeasuredPairs(len(previous), low[kept], high[kept], pairs.log_ms[kept], pairs.half_skew[kept])


def changed_share(before: MeasuredPairs, now: MeasuredPairs) -> float:
    """Returns the share of pairs that are in only one of the two, or have moved."""
    one, other = _common_slots(before, now)
    union = len(before.keys) + len(now.keys) - len(one)
    return 1 - float(_alike(before, now, one, other).sum()) / union if union else 0.0


def moved_nodes(before: MeasuredPairs, now: MeasuredPairs) -> NDArray[np.bool_]:
    """Tells of each node whether most of its pairs in both have moved. One moved pair says nothing of either end."""
    one, other = _common_slots(before, now)
    first, second = now.first[other], now.second[other]
    common = np.bincount(first, minlength=now.node_count) + np.bincount(second, minlength=now.node_count)
    apart = ~_alike(before, now, one, other)
    far = np.bincount(first, apart, now.node_count) + np.bincount(second, apart, now.node_count)
    return np.asarray(2 * far > common)


def _common_slots(before: MeasuredPairs, now: MeasuredPairs) -> tuple[Indices, Indices]:
    """Returns the positions in each of the pairs that are in both."""
    _, one, other = np.intersect1d(before.keys, now.keys, assume_unique=True, return_indices=True)
    return one, other


def _alike(before: MeasuredPairs, now: MeasuredPairs, one: Indices, other: Indices) -> NDArray[np.bool_]:
    return np.abs(before.log_ms[one] - now.log_ms[other]) <= MAX_LOG_CHANGE


def _starting_nodes(previous: Indices, pairs: MeasuredPairs) -> Indices:
    """Returns, for each node, the previous number of the node at whose point it starts."""
    place = previous.copy()
    source = np.concatenate([pairs.first, pairs.second])
    target = np.concatenate([pairs.second, pairs.first])
    order = np.argsort(-np.concatenate([pairs.log_ms, pairs.log_ms]), kind="stable")
    usable = order[(previous[source[order]] < 0) & (previous[target[order]] >= 0)]
    place[source[usable]] = previous[target[usable]]
    return np.maximum(place, 0)


_PAIR_STEPS = 64_000_000
_MAX_MEMBERS, _MIN_MEMBERS = 16, 5
_MAX_STEPS, _MIN_STEPS = 500, 60
_WARM_STEPS_DIVISOR = 4
"""A warm start takes this part of the steps of a cold one."""
_WARM_RATE, _WARM_LOSS_WIDTH = 0.1, 0.1
_LANDMARK_PAIRS = 6_000_000
"""Product of landmarks and measured pairs at most, but 64 landmarks at least."""
_MIN_LANDMARKS = 64
_REGRESSION_STEPS = 12
"""Steps of the regression: with more, the estimates of measured networks change by less than 0.1 %."""
_HOLDOUT_FOLDS = 8
"""One pair in so many is left out at a time for calibration."""
_HELD_OUT_PAIRS_WANTED = 3_000
_MAX_DRIFT = 0.1
"""Share of pairs that came, went or moved since the calibration, above which a warm start recalibrates."""


class FitBudget(NamedTuple):
    """Limits what a fit may spend.

    members: of the ensemble.
    steps: of a cold descent.
    landmarks: of the residual.
    calibration_rounds: folds left out.
    """

    members: int
    steps: int
    landmarks: int
    calibration_rounds: int

    @property
    def warm_descent(self) -> DescentSchedule:
        """Returns the descent of a warm start."""
        return DescentSchedule(max(1, self.steps // _WARM_STEPS_DIVISOR), _WARM_RATE, _WARM_LOSS_WIDTH)


def fit_budget(pairs: MeasuredPairs) -> FitBudget:
    """Returns the budget for this number of nodes and pairs, so that time is bounded."""
    measured = max(1, len(pairs.log_ms))
    members = int(np.clip(_PAIR_STEPS // (measured * _MAX_STEPS), _MIN_MEMBERS, _MAX_MEMBERS))
    steps = int(np.clip(_PAIR_STEPS // (measured * members), _MIN_STEPS, _MAX_STEPS))
    landmarks = min(pairs.node_count, max(_MIN_LANDMARKS, _LANDMARK_PAIRS // measured))
    rounds = min(_HOLDOUT_FOLDS, ceil(_HELD_OUT_PAIRS_WANTED * _HOLDOUT_FOLDS / measured))
    return FitBudget(members, steps, landmarks, rounds)


def fit_network(
    pairs: MeasuredPairs,
    rng: "np.random.Generator",
    groups: Sequence[Indices] = (),
    before: NetworkEstimates | None = None,
    budget: FitBudget | None = None,
    former: FormerPairs | None = None,
) -> NetworkEstimates:
    """Fits the estimates; equal arguments give equal estimates.

    groups: group of each node (-1 unknown), from the finest: racks, then zones.
    before: the fit to start from, with as many nodes as now (`carry_over`).
    budget: None: `fit_budget` of all pairs.
    former: pairs that were measured before and are not in `pairs`. They count in the fit as the others do, but no
    interval is calibrated on them.
    """
    former = former or no_former_pairs(pairs.node_count)
    fitted_to = pairs.union(former.pairs)
    budget = budget or fit_budget(fitted_to)
    members = _members(fitted_to, rng, budget, before)
    landmarks = np.sort(rng.permutation(pairs.node_count)[: budget.landmarks])
    fitted = fit_model(members, fitted_to, landmarks, _REGRESSION_STEPS)
    drift = 1.0 if before is None else before.drift + changed_share(before.pairs, pairs)
    if before is not None and drift <= _MAX_DRIFT:
        calibration, error = before.calibration, before.median_log_error
    else:
        (calibration, error), drift = _cross_calibrate(members, pairs, former.pairs, landmarks, rng, budget), 0.0
    levels = (fit_group_medians(np.asarray(of), pairs) for of in groups)
    better = tuple(one for one in levels if one.error < error)
    return NetworkEstimates(pairs, fitted, calibration, better, error, drift, pairs.degree > 0, former)


def _members(
    pairs: MeasuredPairs, rng: "np.random.Generator", budget: FitBudget, before: NetworkEstimates | None
) -> tuple[EnsembleMember, ...]:
    if before is not None:
        return tuple(descend(member, pairs, budget.warm_descent) for member in before.model.members)
    shapes = [ENSEMBLE_SHAPES[number % len(ENSEMBLE_SHAPES)] for number in range(budget.members)]
    return tuple(descend(random_member(shape, pairs, rng), pairs, DescentSchedule(budget.steps)) for shape in shapes)


def _cross_calibrate(
    members: Sequence[EnsembleMember],
    pairs: MeasuredPairs,
    former: MeasuredPairs,
    landmarks: Indices,
    rng: "np.random.Generator",
    budget: FitBudget,
) -> tuple[Calibration, float]:
    """Calibrates on folds of `pairs`: members forget the pairs left out by descending further without them."""
    part = rng.integers(0, _HOLDOUT_FOLDS, len(pairs.log_ms))
    predictors: list[ErrorPredictors] = []
    measured: list[Floats] = []
    pair: list[Indices] = []
    for number in range(budget.calibration_rounds if len(part) >= _HOLDOUT_FOLDS else 0):
        kept, out = pairs.where(part != number).union(former), pairs.where(part == number)
        again = [descend(member, kept, budget.warm_descent) for member in members]
        of, log_ms = out.directions
        predictors.append(fit_model(again, kept, landmarks, _REGRESSION_STEPS).at(out.first[of], out.second[of]))
        measured.append(log_ms)
        pair.append(np.flatnonzero(part == number)[of])
    if not predictors:
        return UNCALIBRATED, float("inf")
    joined = ErrorPredictors(*(np.concatenate(column) for column in zip(*predictors, strict=True)))
    error = np.concatenate(measured) - joined.log_ms
    return calibrate(joined, error, np.concatenate(pair)), float(np.median(np.abs(error)))
