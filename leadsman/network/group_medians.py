"""Estimates round trips by the median between two groups of nodes, racks or zones, where enough pairs are measured."""

from typing import NamedTuple

import numpy as np

from leadsman.network.calibration import COVERAGE
from leadsman.network.measured_pairs import Floats, Indices, MeasuredPairs
from leadsman.network.plausibility import Reports

MIN_PAIRS = 3
"""Measured pairs between two groups, below which their median is chance."""


class GroupMedians(NamedTuple):
    """The medians of one way of grouping.

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
        """The medians of the pairs (one[k], other[k]); NaN where there is none."""
        keys = _group_pair_keys(self.group_of, one, other)
        if not len(self.keys):
            return np.full(np.shape(keys), np.nan, np.float32)
        slot = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[slot] == keys, self.medians[slot], np.nan)

    def without_strangers(self, reports: Reports) -> "GroupMedians":
        """Takes a node out of the group that it says it is in, when most of what others report of it is outside of the
        interval."""
        error = reports.log_ms - self.log_ms(reports.reporter, reports.target)
        of = np.bincount(reports.target[~np.isnan(error)], minlength=reports.node_count)
        outside = np.bincount(reports.target[(error < self.low) | (error > self.high)], minlength=reports.node_count)
        return self._replace(group_of=np.where(2 * outside > of, -1, self.group_of))


def fit_group_medians(of: Indices, pairs: MeasuredPairs) -> GroupMedians:
    """The medians of all pairs of groups with at least MIN_PAIRS measured pairs. of: group of each node."""
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
    """Each value less the median of the others of its run. values: sorted within each run."""
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
    """One number a pair of groups, in either order; negative when a group is unknown."""
    first, second = of[one], of[other]
    low, high = np.minimum(first, second), np.maximum(first, second)
    return np.asarray(low * (of.max(initial=0) + 1) + high)
