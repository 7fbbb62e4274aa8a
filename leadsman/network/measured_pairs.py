"""Cleans the measured round trips: one value for each unordered pair, and one for each direction."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]

MIN_RTT_MS = 0.001
MAX_RTT_MS = 60_000.0
"""Outside of these a value is an error of the measurement, and the pair counts as unmeasured."""


class MeasuredPairs(NamedTuple):
    """Holds all measured pairs, each once, with first[k] < second[k].

    log_ms: mean of the directions' logarithms.
    half_skew: half of the logarithm of first → second less that of second → first; NaN when only one was measured.
    """

    node_count: int
    first: Indices
    second: Indices
    log_ms: Floats
    half_skew: Floats

    @property
    def degree(self) -> Indices:
        """Returns how many measured peers each node has."""
        return np.bincount(self.first, minlength=self.node_count) + np.bincount(self.second, minlength=self.node_count)

    @property
    def keys(self) -> Indices:
        """Numbers each pair; ascending."""
        return self.first * self.node_count + self.second

    @property
    def faster_log_ms(self) -> Floats:
        """Returns the logarithm of the faster direction, or of the only one that is measured."""
        return self.log_ms - np.abs(np.nan_to_num(self.half_skew))

    @property
    def slower_log_ms(self) -> Floats:
        """Returns the logarithm of the slower direction, or of the only one that is measured."""
        return self.log_ms + np.abs(np.nan_to_num(self.half_skew))

    def find_pairs(self, one: Indices, other: Indices) -> tuple[Indices, NDArray[np.bool_]]:
        """Finds the pairs (one[k], other[k]), in either order, and tells which were measured at all."""
        keys, queried = self.keys, np.minimum(one, other) * self.node_count + np.maximum(one, other)
        if not len(keys):
            return np.zeros_like(queried), np.zeros(len(queried), np.bool_)
        slot = np.minimum(np.searchsorted(keys, queried), len(keys) - 1)
        return slot, keys[slot] == queried

    @property
    def directions(self) -> tuple[Indices, Floats]:
        """Returns each measurement by itself: the pair it belongs to, and its log_ms."""
        both = np.flatnonzero(~np.isnan(self.half_skew))
        single = np.flatnonzero(np.isnan(self.half_skew))
        apart = (
            self.log_ms[single],
            self.log_ms[both] + self.half_skew[both],
            self.log_ms[both] - self.half_skew[both],
        )
        return np.concatenate([single, both, both]), np.concatenate(apart)

    def where(self, mask: NDArray[np.bool_]) -> "MeasuredPairs":
        """Returns the pairs that the mask selects."""
        return self.at(np.flatnonzero(mask))

    def at(self, slots: Indices) -> "MeasuredPairs":
        """Returns the pairs at these positions, in this order."""
        return MeasuredPairs(
            self.node_count, self.first[slots], self.second[slots], self.log_ms[slots], self.half_skew[slots]
        )

    def union(self, other: "MeasuredPairs") -> "MeasuredPairs":
        """Joins these pairs and those of the same nodes in `other`; no pair may be in both."""
        columns = (np.concatenate(each) for each in zip(self[1:], other[1:], strict=True))
        both = MeasuredPairs(self.node_count, *columns)
        return both.at(np.argsort(both.keys, kind="stable"))


def usable_mask(rtt_ms: Floats) -> NDArray[np.bool_]:
    """Tells which round trips are usable: not NaN, infinity, zero, negative or more than a minute."""
    return (rtt_ms >= MIN_RTT_MS) & (rtt_ms <= MAX_RTT_MS)


def build_pairs(nodes: int, source: Indices, target: Indices, rtt_ms: Floats) -> MeasuredPairs:
    """Builds the pairs of measurements source[k] → target[k], in any order. Of repeated ones the last counts."""
    keep = usable_mask(rtt_ms) & (source != target)
    key, log_ms = source[keep] * nodes + target[keep], np.log(rtt_ms[keep])
    key, last = np.unique(key[::-1], return_index=True)
    source, target, log_ms = key // nodes, key % nodes, log_ms[::-1][last]
    return _join_directions(nodes, source, target, log_ms)


def _join_directions(nodes: int, source: Indices, target: Indices, log_ms: Floats) -> MeasuredPairs:
    low, high = np.minimum(source, target), np.maximum(source, target)
    key, slot = np.unique(low * nodes + high, return_inverse=True)
    count = np.bincount(slot, minlength=len(key))
    mean = np.bincount(slot, log_ms, len(key)) / np.maximum(count, 1)
    forward = np.bincount(slot, np.where(source < target, log_ms, 0), len(key))
    skew = np.where(count == 2, forward - mean, np.nan)
    return MeasuredPairs(nodes, key // nodes, key % nodes, mean.astype(np.float32), skew.astype(np.float32))
