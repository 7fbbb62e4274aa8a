"""Serves delays between nodes and groups of nodes: the heatmap, its tiles, outliers and slow nodes."""

from collections.abc import Mapping, Sequence

import numpy as np
from aiohttp import web
from msgspec import Struct

from extender.api.history import DelayHistory, NodeShift
from extender.api.live import LiveState
from extender.api.nodes import number_or_none
from extender.api.requests import PAGED, ListQuery, NumberGrid, RequestError, Route, iso, moment, whole_number
from extender.api.view import ClusterView, grouped_median, outlier_rows, slow_nodes
from leadsman.network.measured_pairs import Floats, Indices

NodeNameGroups = Sequence[Sequence[str]]
"""Groups of nodes in which every two are within a delay."""


class DelayGroup(Struct, frozen=True):
    """A group of nodes that are near each other. nodes: how many."""

    id: str
    label: str
    nodes: int


class OutlierPair(Struct, frozen=True):
    """A measured pair far from the median of its groups. source_group, target_group: places in `groups`."""

    source: str
    target: str
    source_group: int
    target_group: int
    rtt_ms: float
    expected_ms: float


class SlowNode(Struct, frozen=True):
    """A node that is farther from everybody than the nodes of its group. since: null: longer than the history."""

    node: str
    excess_ms: float
    since: str | None
    text: str


class GroupDelays(Struct, frozen=True):
    """Round trips between all groups of nodes, at most 64 of them, with outliers and slow nodes.

    median_ms: of measured pairs, else of estimates; low_ms, high_ms: 5th and 95th percentile, or the estimate's 90 %
    interval; measured, lost: pairs; where measured is 0, the numbers are estimates. Rows are the side that measured.
    """

    groups: Sequence[DelayGroup]
    median_ms: NumberGrid
    low_ms: NumberGrid
    high_ms: NumberGrid
    measured: Sequence[Sequence[int]]
    lost: Sequence[Sequence[int]]
    outliers: Sequence[OutlierPair]
    slow_nodes: Sequence[SlowNode]


class DelayCells(Struct, frozen=True):
    """A tile of the node by node matrix, nodes in the order of their groups.

    row_groups, column_groups: id of each row's and column's group.
    kind: "measured", "estimate", "lost" (rtt_ms is then null), "self" or "unknown". Rows are the side that measured.
    """

    total_nodes: int
    row_offset: int
    column_offset: int
    row_names: Sequence[str]
    column_names: Sequence[str]
    row_groups: Sequence[str]
    column_groups: Sequence[str]
    rtt_ms: NumberGrid
    kind: Sequence[Sequence[str]]
    low_ms: NumberGrid
    high_ms: NumberGrid


class NodeLayers(Struct, frozen=True):
    """Groups of nodes within so many ms of each other. layers: "5 ms" → groups; {}: no layers were asked for."""

    layers: Mapping[str, NodeNameGroups]


class NodeChange(Struct, frozen=True):
    """Compares a node's median round trip at two moments. change_ms: by how much it moved away from all others itself,
    by its pairs; null: too few of them were measured at both."""

    node: str
    before_ms: float
    after_ms: float
    change_ms: float | None


class DelayChanges(Struct, frozen=True, rename={"from_": "from"}):
    """Says how delays differ between two moments of the history, largest difference first.

    from, to: the moments that were compared.
    """

    from_: str
    to: str
    items: Sequence[NodeChange]
    next: str | None
    total: int


# Delays of a view: groups, tiles, and what changed between two moments.

MAX_TILE = 128
SAMPLED_NODES = 5
"""So many nodes of each group are taken for the estimate between two groups of which no pair was measured."""


def group_delays(view: ClusterView, shifts: Sequence[NodeShift]) -> GroupDelays:
    """Summarises delays by group; where nothing was measured, by the median over estimates of some of their nodes."""
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
    """Returns those that moved away within the history first, then those that have always been far."""
    moved = [
        SlowNode(shift.node, round(shift.shift_ms, 3), iso(shift.since), shift.text)
        for shift in shifts
        if shift.shift_ms > 0
    ]
    names = {each.node for each in moved}
    far = [
        at for at in slow_nodes(view.excess_ms, view.table.node_medians).tolist() if view.table.names[at] not in names
    ]
    for at in far:
        node, excess_ms = view.table.names[at], float(view.excess_ms[at])
        text = f"{node} is {excess_ms:.3g} ms farther from everybody than the nodes of its group"
        moved.append(SlowNode(node, round(excess_ms, 3), None, text))
    return moved


def delay_cells(view: ClusterView, rows: slice, columns: slice) -> DelayCells:
    """Returns a tile of the matrix, in the order of groups; a direction that is not measured is estimated."""
    table, grouping = view.table, view.grouping
    row_nodes, column_nodes = grouping.order[rows], grouping.order[columns]
    one, other = (each.ravel() for each in np.meshgrid(row_nodes, column_nodes, indexing="ij"))
    window = table.rows_of(one, other)
    probed = window >= 0
    measured = np.full(len(one), np.nan)
    measured[probed] = table.rtt_ms[window[probed]]
    kinds: Indices = np.where(probed, np.where(np.isnan(measured), _LOST, _MEASURED), _ESTIMATE)
    kinds[one == other] = _SELF
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


def delay_changes(
    names: Sequence[str], history: DelayHistory, before: float, after: float, query: ListQuery
) -> DelayChanges:
    """Lists nodes that have a median at both moments, the largest change first. before, after: Unix seconds; the kept
    moments nearest to them are compared. RequestError 404 when nothing is kept yet."""
    found = history.compare(before, after)
    if found is None:
        raise RequestError(404, "no minute is kept yet: the history begins when the page is first opened")
    begin, end, by_node = found
    changes = [NodeChange(name, *by_node[name]) for name in names if name in by_node]
    page = query.page(sorted(changes, key=lambda each: (-abs(each.change_ms or 0), each.node)))
    return DelayChanges(iso(begin), iso(end), page.items, page.next, page.total)


def grid(values: Floats) -> list[list[float | None]]:
    return [number_or_none(row) for row in values]


async def groups(live: LiveState, _: web.Request) -> GroupDelays:
    view, shifts = await live.view(), live.history.shifts
    return await live.on_worker(lambda: group_delays(view, shifts))


async def cells(live: LiveState, request: web.Request) -> DelayCells:
    view = await live.view()
    rows, columns = (_tile(request, each, len(view.table.names)) for each in ("row", "column"))
    return await live.on_worker(lambda: delay_cells(view, rows, columns))


def _tile(request: web.Request, side: str, nodes: int) -> slice:
    size = whole_number(request.query, f"{side}s", MAX_TILE, 1, MAX_TILE)
    offset = whole_number(request.query, f"{side}_offset", 0, 0, max(0, nodes - 1))
    return slice(offset, offset + size)


async def layers(live: LiveState, _: web.Request) -> NodeLayers:
    found = live.sources.inputs.delays.estimator.groups
    return NodeLayers(found.named() if found else {})


async def change(live: LiveState, request: web.Request) -> DelayChanges:
    live.keep_history()
    page, before, after = ListQuery(request.query), *sorted(moment(request.query, each) for each in ("from", "to"))
    view = await live.view()
    return await live.on_worker(lambda: delay_changes(view.table.names, live.history, before, after, page))


ROUTES = (
    Route("/delays/groups", groups, GroupDelays, "Delays group by group, outliers and slow nodes."),
    Route(
        "/delays/cells",
        cells,
        DelayCells,
        "A tile of at most 128 by 128 of the node by node matrix.",
        ("row_offset", "column_offset", "rows", "columns"),
    ),
    Route("/delays/layers", layers, NodeLayers, "Groups of near nodes, by the layers asked for."),
    Route(
        "/delays/change",
        change,
        DelayChanges,
        "By how much each node moved between two moments of the history.",
        ("from", "to", *PAGED),
        ("from", "to"),
    ),
)
