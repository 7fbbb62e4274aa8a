"""Estimates a pair: as measured, else the median of the groups, else by coordinates; with an interval and a source.

A pair that was measured before is as it was then, while that says more.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from leadsman.network.calibration import Calibration, ErrorPredictors
from leadsman.network.former_pairs import FormerPairs
from leadsman.network.group_medians import GroupMedians
from leadsman.network.measured_pairs import MAX_RTT_MS, Floats, Indices, MeasuredPairs
from leadsman.network.rtt_model import RttModel


class EstimateSource(StrEnum):
    """Where an estimate comes from."""

    MEASURED = "measured"
    GROUP = "group"
    COORDINATES = "coordinates"
    REMEMBERED = "remembered"
    """As it was measured before, while its interval is narrower than that of the other estimate."""


ESTIMATE_SOURCES = tuple(EstimateSource)

_MAX_LOG_RTT_MS = np.log(MAX_RTT_MS)


class RttEstimate(Struct, frozen=True):
    """The estimate of one pair.

    low_ms, high_ms: contain a direction's true RTT in 9 of 10 cases; the slower direction is above in 1 of 20 pairs
    (of a group's median: one direction is). That is of all pairs: of those that a bound accepts by high_ms, up to 1 in
    10 are above the bound where nodes' two directions differ. Of a measured pair: the faster and the slower direction.
    rtt_ms: of a measured pair, the slower direction.
    """

    rtt_ms: float
    low_ms: float
    high_ms: float
    source: EstimateSource


class EstimateTable(NamedTuple):
    """The estimates of many pairs. NaN: none. source: index into ESTIMATE_SOURCES; -1: none."""

    rtt_ms: Floats
    low_ms: Floats
    high_ms: Floats
    source: Indices


class NetworkEstimates(NamedTuple):
    """The result of `fit_network`. Immutable; memory is O(nodes) and O(measured pairs).

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
        """Median relative error of estimates of unmeasured pairs; infinite when too few pairs are measured."""
        return float(np.expm1(self.median_log_error))

    def estimate(self, one: int, other: int) -> RttEstimate | None:
        """The estimate of one pair; None when neither its groups nor both nodes were measured. 0 ms to itself."""
        table = self.between(np.array([one]), np.array([other]))
        rtt_ms, low_ms, high_ms, source = (column[0] for column in table)
        return (
            None if source < 0 else RttEstimate(float(rtt_ms), float(low_ms), float(high_ms), ESTIMATE_SOURCES[source])
        )

    def row(self, one: int) -> EstimateTable:
        """The estimates from `one` to every node."""
        other = np.arange(self.pairs.node_count)
        return self._table(np.full_like(other, one), other, self.model.row(one))

    def between(self, one: Indices, other: Indices) -> EstimateTable:
        """The estimates of the pairs (one[k], other[k])."""
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
