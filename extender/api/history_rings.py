"""Rings of moments: a row a moment, a column a node or a pair; the newest row takes the place of the oldest."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leadsman.network.measured_pairs import Floats, Indices

MINUTES, HALF_HOURS = 60, 96

MAX_PAIRS = 180_000
"""Their 60 minutes take 21.6 MB. 5,000 nodes with 33 peers each are 165,000 directed pairs."""

_FIRST_COLUMNS = 64
_LEAST_MS, _LOG_STEP = 0.001, 0.0003
"""A pair's round trip takes 16 bits, as a logarithm: 0.001 ms to 340 s in steps of 0.03 %. 0: not measured."""


class _Times:
    """Which row holds which moment."""

    def __init__(self, rows: int) -> None:
        self._rows, self._count = rows, 0
        self._at = [0.0] * rows

    @property
    def times(self) -> Sequence[float]:
        """Unix seconds of the kept moments, ascending."""
        return [self._at[row] for row in self._ordered_rows()]

    @property
    def newest_at(self) -> float:
        """0 before the first."""
        return self._at[(self._count - 1) % self._rows] if self._count else 0.0

    def _ordered_rows(self) -> Sequence[int]:
        return [count % self._rows for count in range(max(0, self._count - self._rows), self._count)]

    def _next_row(self, at: float) -> int:
        row = self._count % self._rows
        self._at[row] = at
        self._count += 1
        return row


class NodeRing(_Times):
    """Values in ms, NaN where there is none. Columns are node numbers."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self._values = np.full((rows, _FIRST_COLUMNS), np.nan, np.float32)

    @property
    def held_bytes(self) -> int:
        return self._values.nbytes

    def add(self, at: float, values: Floats) -> None:
        """values: by node number; there may be more than before."""
        if len(values) > self._values.shape[1]:
            more = len(values) + len(values) // 4 - self._values.shape[1]
            self._values = np.pad(self._values, ((0, 0), (0, more)), constant_values=np.nan)
        row = self._next_row(at)
        self._values[row] = np.nan
        self._values[row, : len(values)] = values

    def at(self, at: float) -> Floats:
        """The values of a kept moment."""
        return np.asarray(self._values[self._at.index(at)])

    def of(self, number: int) -> list[tuple[float, float]]:
        """Moment and value of one node."""
        if number >= self._values.shape[1]:
            return [(at, np.nan) for at in self.times]
        return [(self._at[row], float(self._values[row, number])) for row in self._ordered_rows()]

    def median_of_last(self, moments: int) -> Floats:
        """Of each node over the newest moments that have a value of it."""
        ordered = np.sort(self._values[list(self._ordered_rows()[-moments:])], axis=0)  # NaN comes last.
        count = (~np.isnan(ordered)).sum(0)
        middle = ordered[np.maximum(count - 1, 0) // 2, np.arange(ordered.shape[1])]
        return np.asarray(middle)


class PairRing(_Times):
    """Values of directed pairs, MAX_PAIRS at most: a new pair takes the column of the one measured longest ago."""

    def __init__(self, nodes: int) -> None:
        """nodes: above every node's number."""
        super().__init__(MINUTES)
        self._nodes = nodes
        self._keys = np.full(_FIRST_COLUMNS, -1, np.int64)
        self._measured_in = np.full(_FIRST_COLUMNS, -1, np.int64)
        self._values = np.zeros((MINUTES, _FIRST_COLUMNS), np.uint16)

    @property
    def held_bytes(self) -> int:
        return self._values.nbytes + self._keys.nbytes + self._measured_in.nbytes

    def add(self, at: float, source: Indices, target: Indices, rtt_ms: Floats) -> None:
        """Each pair once. What is beyond MAX_PAIRS is left out."""
        keys = (source.astype(np.int64) * self._nodes + target)[:MAX_PAIRS]
        row = self._next_row(at)
        columns = self._columns_of(keys)
        self._values[row] = 0
        self._values[row, columns] = _encoded(rtt_ms[:MAX_PAIRS])

    def of(self, source: int, target: int) -> Floats:
        """The pair's value at each of `times`, NaN where there is none."""
        column = np.flatnonzero(self._keys == source * self._nodes + target)
        if not len(column):
            return np.full(len(self.times), np.nan)
        return _decoded(self._values[list(self._ordered_rows()), column[0]])

    def compare(self, minute: int, only: Indices | None = None) -> tuple[Indices, Indices, Floats, Floats]:
        """Source, target and values of one minute and the newest, of the pairs that both have. minute: place in
        `times`. only: pairs with an end among these nodes."""
        rows = self._ordered_rows()
        before, now = self._values[rows[minute]], self._values[rows[-1]]
        both = np.flatnonzero((before > 0) & (now > 0))
        source, target = self._keys[both] // self._nodes, self._keys[both] % self._nodes
        if only is not None:
            near = np.isin(source, only) | np.isin(target, only)
            both, source, target = both[near], source[near], target[near]
        return source.astype(np.intp), target.astype(np.intp), _decoded(before[both]), _decoded(now[both])

    def _columns_of(self, keys: NDArray[np.int64]) -> Indices:
        """The column of each key, made where there is none."""
        order = np.argsort(self._keys)
        column = order[np.minimum(np.searchsorted(self._keys, keys, sorter=order), len(order) - 1)]
        is_new = self._keys[column] != keys
        self._measured_in[column[~is_new]] = self._count
        missing = int(is_new.sum())
        self._grow(missing)
        oldest = np.argsort(self._measured_in, kind="stable")[:missing]
        self._values[:, oldest] = 0
        self._keys[oldest] = keys[is_new]
        self._measured_in[oldest] = self._count
        column[is_new] = oldest
        return np.asarray(column)

    def _grow(self, missing: int) -> None:
        """Until free columns are enough, or MAX_PAIRS are there."""
        free = int((self._measured_in < 0).sum())
        size = len(self._keys)
        if missing > free and size < MAX_PAIRS:
            more = min(MAX_PAIRS, max(size + missing - free, size + size // 4)) - size
            self._keys = np.pad(self._keys, (0, more), constant_values=-1)
            self._measured_in = np.pad(self._measured_in, (0, more), constant_values=-1)
            self._values = np.pad(self._values, ((0, 0), (0, more)))


def _encoded(rtt_ms: Floats) -> NDArray[np.uint16]:
    steps = np.log(np.maximum(rtt_ms, _LEAST_MS) / _LEAST_MS) / _LOG_STEP
    return (1 + np.minimum(np.round(steps), 65_534)).astype(np.uint16)


def _decoded(values: NDArray[np.uint16]) -> Floats:
    rtt_ms = _LEAST_MS * np.exp((values.astype(np.float64) - 1) * _LOG_STEP)
    return np.where(values > 0, rtt_ms, np.nan)
