"""Estimates a pair as it was measured, else by its groups' median, else by coordinates; with an interval and a source.

A pair that was measured before is as it was then, while that says more.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leadsman.network.calibration import COVERAGE, Calibration, ErrorPredictors
from leadsman.network.former_pairs import FormerPairs
from leadsman.network.measured_pairs import MAX_RTT_MS, Floats, Indices, MeasuredPairs
from leadsman.network.plausibility import Reports
from leadsman.network.rtt_model import RttModel

# Estimates round trips by the median between two groups of nodes, racks or zones, where enough pairs are measured.

MIN_PAIRS = 3
"""Measured pairs between two groups, below which their median is chance."""


class GroupMedians(NamedTuple):
    """The median round trips between groups, by one way of grouping.

    group_of: group of each node, -1 unknown.
    keys, medians: each measured pair of groups and its log_ms.
    low, high: offsets of the 90 % interval.
    error: median absolute error, as a logarithm, when each measured pair is predicted by the others of its pair of
    groups; infinite when none can be.
    """

    group_of: Indices
    keys: Indices
    medians: Floats
    low: float
    high: float
    error: float

    def log_ms(self, one: Indices, other: Indices) -> Floats:
        """Returns the medians of the pairs (one[k], other[k]); NaN where there is none."""
        keys = _group_pair_keys(self.group_of, one, other)
        if not len(self.keys):
            return np.full(np.shape(keys), np.nan, np.float32)
        slot = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[slot] == keys, self.medians[slot], np.nan)

    def without_mistrusted(self, reports: Reports) -> "GroupMedians":
        """Takes a node out of the group that it claims to be in when most of what others report of it is outside of the
        interval."""
        error = reports.log_ms - self.log_ms(reports.reporter, reports.target)
        of = np.bincount(reports.target[~np.isnan(error)], minlength=reports.node_count)
        outside = np.bincount(reports.target[(error < self.low) | (error > self.high)], minlength=reports.node_count)
        return self._replace(group_of=np.where(2 * outside > of, -1, self.group_of))


def fit_group_medians(of: Indices, pairs: MeasuredPairs) -> GroupMedians:
    """Computes the medians of all pairs of groups with at least MIN_PAIRS measured pairs. of: group of each node."""
    key = _group_pair_keys(of, pairs.first, pairs.second)
    order = np.lexsort((pairs.log_ms, key))
    order = order[key[order] >= 0]
    values, (keys, begin, count) = pairs.log_ms[order], np.unique(key[order], return_index=True, return_counts=True)
    known = count >= MIN_PAIRS
    error = _leave_one_out_errors(values, begin[known], count[known])
    low, high = _interval(error)
    medians = (values[begin + (count - 1) // 2] + values[begin + count // 2]) / 2 if len(keys) else values
    return GroupMedians(
        of, keys[known], medians[known], low, high, float(np.median(np.abs(error))) if len(error) else np.inf
    )


def _leave_one_out_errors(values: Floats, begin: Indices, count: Indices) -> Floats:
    """Returns each value less the median of the others of its run. values: sorted within each run."""
    size = np.repeat(count, count)
    start = np.repeat(begin, count)
    rank = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    middle = [(size - 2) // 2, (size - 1) // 2]
    others = [values[start + at + (at >= rank)] for at in middle]
    return np.asarray(values[start + rank] - (others[0] + others[1]) / 2)


def _interval(error: Floats) -> tuple[float, float]:
    outside = int((len(error) + 1) * (1 - COVERAGE) / 2)
    if not outside:
        return -np.inf, np.inf
    ordered = np.sort(error)
    return float(ordered[outside - 1]), float(ordered[-outside])


def _group_pair_keys(of: Indices, one: Indices, other: Indices) -> Indices:
    """Returns one number a pair of groups, in either order; negative when a group is unknown."""
    first, second = of[one], of[other]
    low, high = np.minimum(first, second), np.maximum(first, second)
    return np.asarray(low * (of.max(initial=0) + 1) + high)


class EstimateSource(StrEnum):
    """Says where an estimate comes from."""

    MEASURED = "measured"
    GROUP = "group"
    COORDINATES = "coordinates"
    REMEMBERED = "remembered"
    """The round trip is as it was measured before, while its interval is narrower than that of the other estimate."""


ESTIMATE_SOURCES = tuple(EstimateSource)

_MAX_LOG_RTT_MS = np.log(MAX_RTT_MS)


class EstimateTable(NamedTuple):
    """Holds the estimates of many pairs. NaN: none.

    low_ms, high_ms: contain a direction's true RTT in 9 of 10 cases; the slower direction is above in 1 of 20 pairs
    (of a group's median: one direction is). That is of all pairs: of those that a bound accepts by high_ms, up to 1 in
    10 are above the bound where nodes' two directions differ. Of a measured pair: the faster and the slower direction.
    rtt_ms: of a measured pair, the slower direction.
    source: index into ESTIMATE_SOURCES; -1: none.
    """

    rtt_ms: Floats
    low_ms: Floats
    high_ms: Floats
    source: Indices


class NetworkEstimates(NamedTuple):
    """Holds what `fit_network` found. Immutable; memory is O(nodes) and O(measured pairs).

    group_medians: from the finest; those that err more than coordinates are left out.
    median_log_error: median absolute error of coordinates on pairs left out, as a logarithm.
    drift: share of the pairs that changed since the calibration.
    is_measured: of each node, whether any of its pairs was measured.
    former: pairs that were measured before; None: none.
    """

    pairs: MeasuredPairs
    model: RttModel
    calibration: Calibration
    group_medians: tuple[GroupMedians, ...]
    median_log_error: float
    drift: float = 0.0
    is_measured: NDArray[np.bool_] = np.zeros(0, np.bool_)
    former: FormerPairs | None = None

    @property
    def expected_error(self) -> float:
        """Returns the median relative error of unmeasured pairs; infinite when too few pairs are measured."""
        return float(np.expm1(self.median_log_error))

    def row(self, one: int) -> EstimateTable:
        """Returns estimates from `one` to every node; none where neither its groups nor both nodes were measured."""
        other = np.arange(self.pairs.node_count)
        return self._table(np.full_like(other, one), other, self.model.row(one))

    def between(self, one: Indices, other: Indices) -> EstimateTable:
        """Returns the estimates of the pairs (one[k], other[k])."""
        return self._table(one, other, self.model.at(one, other))

    def _table(self, one: Indices, other: Indices, predictors: ErrorPredictors) -> EstimateTable:
        table = self._by_coordinates(one, other, predictors)
        for level in reversed(self.group_medians):
            middle = level.log_ms(one, other)
            _fill(table, ~np.isnan(middle), (middle, middle + level.low, middle + level.high), EstimateSource.GROUP)
        self._fill_former(table, one, other)
        self._fill_measured(table, one, other)
        for column in table[:3]:
            column[one == other] = 0
        return table

    def _by_coordinates(self, one: Indices, other: Indices, predictors: ErrorPredictors) -> EstimateTable:
        low, middle, high = (predictors.log_ms + offset for offset in self.calibration.offsets(predictors))
        known = self.is_measured[one] & self.is_measured[other]
        nothing = [np.full(len(known), np.nan, np.float32) for _ in range(3)]
        table = EstimateTable(nothing[0], nothing[1], nothing[2], np.full(len(known), -1))
        _fill(table, known | (one == other), (middle, low, high), EstimateSource.COORDINATES)
        return table

    def _fill_former(self, table: EstimateTable, one: Indices, other: Indices) -> None:
        if self.former is None or not len(self.former.low):
            return
        slot, measured = self.former.pairs.find_pairs(one, other)
        middle, low, high = self.former.pairs.log_ms[slot], self.former.low[slot], self.former.high[slot]
        with np.errstate(divide="ignore", invalid="ignore"):
            narrower = measured & ~(high - low >= np.log(table.high_ms / table.low_ms))
        _fill(table, narrower, (middle, low, high), EstimateSource.REMEMBERED)

    def _fill_measured(self, table: EstimateTable, one: Indices, other: Indices) -> None:
        slot, measured = self.pairs.find_pairs(one, other)
        if measured.any():
            middle, skew = self.pairs.log_ms[slot], np.abs(np.nan_to_num(self.pairs.half_skew[slot]))
            _fill(table, measured, (middle + skew, middle - skew, middle + skew), EstimateSource.MEASURED)
        table.source[one == other] = ESTIMATE_SOURCES.index(EstimateSource.MEASURED)


def _fill(table: EstimateTable, where: NDArray[np.bool_], log_ms: Sequence[Floats], source: EstimateSource) -> None:
    for column, values in zip(table[:3], log_ms, strict=True):
        column[where] = np.exp(np.minimum(values[where], _MAX_LOG_RTT_MS))
    table.source[where] = ESTIMATE_SOURCES.index(source)
