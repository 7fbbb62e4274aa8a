"""Group by group: medians, intervals, outliers, and the nodes that are slow towards everybody."""

import numpy as np
from msgspec import Struct

from extender.api.delay_table import DelayTable, grouped_median, grouped_quantiles
from extender.api.grouping import NodeGrouping
from leadsman.network.measured_pairs import Floats, Indices

MAX_OUTLIERS = 50
OUTLIER_FACTOR = 3.0
OUTLIER_MS = 5.0
"""An outlier is both: so many times the median of its groups, and so much above it."""

SLOW_MS = 2.0
SLOW_SHARE = 0.25
"""A slow node is farther from half of its peers than its group, by both so much and such a share of the median."""

MIN_WINDOWS = 3
"""Windows below which a node's median says nothing about the node."""


class GroupMatrix(Struct, frozen=True, eq=False):
    """Square arrays by group of the source and of the target, NaN where nothing was measured."""

    median_ms: Floats
    low_ms: Floats
    high_ms: Floats
    measured: Indices
    lost: Indices


def group_matrix(table: DelayTable, grouping: NodeGrouping) -> GroupMatrix:
    """Of the measured pairs alone."""
    groups = len(grouping.ids)
    cell = _cells(table, grouping)
    median, low, high = (
        each.reshape(groups, groups)
        for each in grouped_quantiles(cell, table.rtt_ms, groups * groups, (0.5, 0.05, 0.95))
    )
    measured = np.bincount(cell[~table.is_lost], minlength=groups * groups).reshape(groups, groups)
    lost = np.bincount(cell[table.is_lost], minlength=groups * groups).reshape(groups, groups)
    return GroupMatrix(median, low, high, measured, lost)


def outlier_rows(table: DelayTable, grouping: NodeGrouping, matrix: GroupMatrix, slow: Indices) -> Indices:
    """The rows of the table that are far above the median of their groups, the farthest first.

    slow: nodes that are far from everybody: their pairs say no more, and would hide the others'.
    """
    expected = matrix.median_ms.ravel()[_cells(table, grouping)]
    excess = np.nan_to_num(table.rtt_ms - expected, nan=0.0)
    outlying = (excess > OUTLIER_MS) & (table.rtt_ms > OUTLIER_FACTOR * expected)
    outlying &= ~(np.isin(table.source, slow) | np.isin(table.target, slow))
    order = np.argsort(-excess, kind="stable")
    return order[outlying[order]][:MAX_OUTLIERS]


def node_excess_ms(table: DelayTable, grouping: NodeGrouping, matrix: GroupMatrix) -> Floats:
    """By how much each node is farther from the others than its group is: the median over its windows, in both
    directions, of the difference to the median of the two groups. NaN with fewer than MIN_WINDOWS."""
    excess = table.rtt_ms - matrix.median_ms.ravel()[_cells(table, grouping)]
    ends = np.concatenate([table.source, table.target])
    both = np.concatenate([excess, excess])
    result = grouped_median(ends, both, len(table.names))
    windows = np.bincount(ends[~np.isnan(both)], minlength=len(table.names))
    return np.where(windows >= MIN_WINDOWS, result, np.nan)


def slow_nodes(excess_ms: Floats, node_medians: Floats) -> Indices:
    """The nodes whose excess is large, the slowest first."""
    usual = np.maximum(node_medians - excess_ms, 0)
    slow = (excess_ms > SLOW_MS) & (excess_ms > SLOW_SHARE * usual)
    order = np.argsort(-np.nan_to_num(excess_ms, nan=-np.inf), kind="stable")
    return order[slow[order]]


def _cells(table: DelayTable, grouping: NodeGrouping) -> Indices:
    return grouping.group_of[table.source] * len(grouping.ids) + grouping.group_of[table.target]
