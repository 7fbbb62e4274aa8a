"""Delays of a view: groups, tiles, and what changed between two moments."""

from collections.abc import Sequence

import numpy as np

from extender.api.cluster_view import ClusterView
from extender.api.contract.delays import (
    DelayCells,
    DelayChanges,
    DelayGroup,
    GroupDelays,
    NodeChange,
    OutlierPair,
    SlowNode,
)
from extender.api.delay_table import grouped_median
from extender.api.group_delays import outlier_rows, slow_nodes
from extender.api.history import DelayHistory, NodeShift
from extender.api.moments import iso, time_of_day
from extender.api.node_rows import number_or_none
from extender.api.parameters import ListQuery, RequestError
from extender.api.shifts import shift_text
from leadsman.network.measured_pairs import Floats, Indices

MAX_TILE = 128
SAMPLED_NODES = 5
"""Of each group, for the estimate between two groups of which no pair was measured."""


def group_delays(view: ClusterView, shifts: Sequence[NodeShift]) -> GroupDelays:
    """Group by group. Where nothing was measured, the median over estimates of some of their nodes."""
    grouping, matrix = view.grouping, view.groups
    groups = len(grouping.ids)
    median, low, high = matrix.median_ms.copy(), matrix.low_ms.copy(), matrix.high_ms.copy()
    unmeasured = matrix.measured == 0
    estimated = _estimated_groups(view, unmeasured)
    for column, values in zip((median, low, high), estimated, strict=True):
        column[unmeasured] = values[unmeasured]
    sizes = grouping.sizes.tolist()
    return GroupDelays(
        groups=[DelayGroup(*each) for each in zip(grouping.ids, grouping.labels, sizes, strict=True)],
        median_ms=grid(median),
        low_ms=grid(low),
        high_ms=grid(high),
        measured=matrix.measured.reshape(groups, groups).tolist(),
        lost=matrix.lost.reshape(groups, groups).tolist(),
        outliers=_outliers(view),
        slow_nodes=_slow_nodes(view, shifts),
    )


def _estimated_groups(view: ClusterView, cells: np.ndarray) -> list[Floats]:
    """Medians of estimates for the cells that are set, NaN elsewhere."""
    groups = len(view.grouping.ids)
    rows, columns = np.nonzero(cells)
    members = [np.flatnonzero(view.grouping.group_of == group)[:SAMPLED_NODES] for group in range(groups)]
    pairs = [
        (cell, one, other)
        for cell, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True))
        for one in members[row].tolist()
        for other in members[column].tolist()
        if one != other
    ]
    cell, one, other = np.array(pairs, np.intp).reshape(-1, 3).T
    estimates = view.estimates.between(one, other)
    results = []
    for values in estimates[:3]:
        result = np.full((groups, groups), np.nan)
        result[rows, columns] = grouped_median(cell, values, len(rows))
        results.append(result)
    return results


def _outliers(view: ClusterView) -> list[OutlierPair]:
    table = view.table
    slow = slow_nodes(view.excess_ms, table.node_medians)
    rows = outlier_rows(table, view.grouping, view.groups, slow)
    outliers = []
    for source, target, rtt_ms in zip(table.source[rows], table.target[rows], table.rtt_ms[rows], strict=True):
        groups = int(view.grouping.group_of[source]), int(view.grouping.group_of[target])
        names = table.names[source], table.names[target]
        expected_ms = float(view.groups.median_ms[groups])
        outliers.append(OutlierPair(*names, *groups, round(float(rtt_ms), 3), round(expected_ms, 3)))
    return outliers


def _slow_nodes(view: ClusterView, shifts: Sequence[NodeShift]) -> list[SlowNode]:
    """Those that moved away within the history first, then those that have always been far."""
    moved = [
        SlowNode(shift.node, round(shift.shift_ms, 3), iso(shift.since), moved_text(shift))
        for shift in shifts
        if shift.shift_ms > 0
    ]
    names = {each.node for each in moved}
    far = [
        at for at in slow_nodes(view.excess_ms, view.table.node_medians).tolist() if view.table.names[at] not in names
    ]
    return moved + [_always_far(view.table.names[at], float(view.excess_ms[at])) for at in far]


def _always_far(node: str, excess_ms: float) -> SlowNode:
    text = f"{node} is {excess_ms:.3g} ms farther from everybody than the nodes of its group"
    return SlowNode(node, round(excess_ms, 3), None, text)


def moved_text(shift: NodeShift) -> str:
    return shift_text(shift.node, shift.shift_ms, time_of_day(shift.since))


def delay_cells(view: ClusterView, rows: slice, columns: slice) -> DelayCells:
    """A tile of the matrix, in the order of groups. A direction that is not measured is estimated."""
    table, grouping = view.table, view.grouping
    row_nodes, column_nodes = grouping.order[rows], grouping.order[columns]
    one, other = (each.ravel() for each in np.meshgrid(row_nodes, column_nodes, indexing="ij"))
    window = table.rows_of(one, other)
    probed = window >= 0
    measured = np.full(len(one), np.nan)
    measured[probed] = table.rtt_ms[window[probed]]
    kinds = _kinds(one == other, probed, np.isnan(measured))
    estimates = view.estimates.between(one, other)
    is_estimate = (kinds == _ESTIMATE) & (estimates.source >= 0)
    kinds[(kinds == _ESTIMATE) & (estimates.source < 0)] = _UNKNOWN
    rtt_ms = np.where(is_estimate, estimates.rtt_ms, measured)
    shape = (len(row_nodes), len(column_nodes))
    names = [[table.names[node] for node in each.tolist()] for each in (row_nodes, column_nodes)]
    groups = [[grouping.ids[group] for group in grouping.group_of[each].tolist()] for each in (row_nodes, column_nodes)]
    return DelayCells(
        total_nodes=len(table.names),
        row_offset=rows.start,
        column_offset=columns.start,
        row_names=names[0],
        column_names=names[1],
        row_groups=groups[0],
        column_groups=groups[1],
        rtt_ms=grid(rtt_ms.reshape(shape)),
        kind=[[KINDS[kind] for kind in row] for row in kinds.reshape(shape).tolist()],
        low_ms=grid(np.where(is_estimate, estimates.low_ms, np.nan).reshape(shape)),
        high_ms=grid(np.where(is_estimate, estimates.high_ms, np.nan).reshape(shape)),
    )


KINDS = ("measured", "estimate", "lost", "self", "unknown")
_MEASURED, _ESTIMATE, _LOST, _SELF, _UNKNOWN = range(len(KINDS))


def _kinds(same: np.ndarray, probed: np.ndarray, without_reply: np.ndarray) -> Indices:
    kinds = np.where(probed, np.where(without_reply, _LOST, _MEASURED), _ESTIMATE)
    return np.asarray(np.where(same, _SELF, kinds))


def delay_changes(view: ClusterView, own: DelayHistory, before: float, after: float, query: ListQuery) -> DelayChanges:
    """Nodes that have a median at both moments, the largest change first. before, after: Unix seconds; the kept
    moments nearest to them are compared. RequestError 404 when nothing is kept yet."""
    begin, end = own.medians_at(before), own.medians_at(after)
    if begin is None or end is None:
        raise RequestError(404, "the history has no moment yet: it begins with the extender's start")
    both = [node for node in view.table.names if node in begin.by_node and node in end.by_node]
    changes = [_node_change(node, begin.by_node[node], end.by_node[node]) for node in both]
    page = query.page(sorted(changes, key=lambda each: (-abs(each.change_ms), each.node)))
    return DelayChanges(iso(begin.at), iso(end.at), page.items, page.next, page.total)


def _node_change(node: str, before_ms: float, after_ms: float) -> NodeChange:
    return NodeChange(node, round(before_ms, 3), round(after_ms, 3), round(after_ms - before_ms, 3))


def grid(values: Floats) -> list[list[float | None]]:
    """Rows for JSON."""
    return [number_or_none(row) for row in values]
