"""The answers: measured, else the median of the groups, else coordinates; always with an interval and its source."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from topology.calibration import Calibration, Signs
from topology.groups import Level
from topology.model import Model
from topology.pairs import LONGEST_MS, Floats, Indices, Pairs


class Source(StrEnum):
    MEASURED = "measured"
    GROUP = "group"
    COORDINATES = "coordinates"


SOURCES = tuple(Source)

_LONGEST = np.log(LONGEST_MS)


class Estimate(Struct, frozen=True):
    """low_ms and high_ms hold a direction's truth in 9 of 10; the slower one is above in 1 of 20 pairs (of a group's
    median: one direction is). Of a measured pair they are the faster and the slower
    direction, as measured, and rtt_ms is the slower."""

    rtt_ms: float
    low_ms: float
    high_ms: float
    source: Source


class Table(NamedTuple):
    """Many estimates. NaN: nothing is known. source: index into SOURCES; -1: none."""

    rtt_ms: Floats
    low_ms: Floats
    high_ms: Floats
    source: Indices


class Estimates(NamedTuple):
    """What `fit` found. Immutable; memory is O(nodes) and O(measured pairs).

    levels: from the finest; those that err more than coordinates do are left out. error: median absolute error of
    coordinates on pairs left out, as a logarithm. drift: share of the pairs that changed since the calibration.
    known: of each node, whether any of its pairs was measured.
    """

    pairs: Pairs
    model: Model
    calibration: Calibration
    levels: tuple[Level, ...]
    error: float
    drift: float = 0.0
    known: NDArray[np.bool_] = np.zeros(0, np.bool_)

    @property
    def expected_error(self) -> float:
        """Median relative error of the estimates for pairs that nobody measured; infinite when too few were."""
        return float(np.expm1(self.error))

    def estimate(self, one: int, other: int) -> Estimate | None:
        """None: neither of the two groups nor one of the two nodes was ever measured. A node is 0 ms from itself."""
        table = self.between(np.array([one]), np.array([other]))
        rtt_ms, low_ms, high_ms, source = (column[0] for column in table)
        return None if source < 0 else Estimate(float(rtt_ms), float(low_ms), float(high_ms), SOURCES[source])

    def row(self, one: int) -> Table:
        """From `one` to every node."""
        other = np.arange(self.pairs.nodes)
        return self._table(np.full_like(other, one), other, self.model.row(one))

    def between(self, one: Indices, other: Indices) -> Table:
        """Of the pairs (one[k], other[k])."""
        return self._table(one, other, self.model.at(one, other))

    def _table(self, one: Indices, other: Indices, signs: Signs) -> Table:
        table = self._by_coordinates(one, other, signs)
        for level in reversed(self.levels):
            middle = level.log_ms(one, other)
            _fill(table, ~np.isnan(middle), (middle, middle + level.low, middle + level.high), Source.GROUP)
        self._fill_measured(table, one, other)
        for column in table[:3]:
            column[one == other] = 0
        return table

    def _by_coordinates(self, one: Indices, other: Indices, signs: Signs) -> Table:
        low, middle, high = (signs.log_ms + offset for offset in self.calibration.offsets(signs))
        known = self.known[one] & self.known[other]
        nothing = [np.full(len(known), np.nan, np.float32) for _ in range(3)]
        table = Table(nothing[0], nothing[1], nothing[2], np.full(len(known), -1))
        _fill(table, known | (one == other), (middle, low, high), Source.COORDINATES)
        return table

    def _fill_measured(self, table: Table, one: Indices, other: Indices) -> None:
        slot, found = self.pairs.slots(one, other)
        if found.any():
            middle, skew = self.pairs.log_ms[slot], np.abs(np.nan_to_num(self.pairs.skew[slot]))
            _fill(table, found, (middle + skew, middle - skew, middle + skew), Source.MEASURED)
        table.source[one == other] = SOURCES.index(Source.MEASURED)


def _fill(table: Table, where: NDArray[np.bool_], log_ms: Sequence[Floats], source: Source) -> None:
    for column, values in zip(table[:3], log_ms, strict=True):
        column[where] = np.exp(np.minimum(values[where], _LONGEST))
    table.source[where] = SOURCES.index(source)
