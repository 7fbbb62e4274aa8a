"""The view is the cluster at one moment, as all pages show it: delay table, groups, map and slow nodes, made together.

Making it takes about 0.3 s at 5,000 nodes, so it is made on a thread, when somebody looks, and at most every
MIN_AGE_SECONDS.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from extender.dead_links import DeadLink, DeadLinkFinder
from leadsman.decision.inputs import DecisionInputs
from leadsman.network.embedding import EnsembleMember
from leadsman.network.estimates import ESTIMATE_SOURCES, EstimateTable
from leadsman.network.measured_pairs import Floats, Indices
from leadsman.sources.delay.fitted_estimates import FittedEstimates
from leadsman.state.records import PeerLatency
from leadsman.state.snapshot import Freshness, Snapshot

# All probe windows of a snapshot as arrays, so that 165,000 of them are counted and sorted in milliseconds.

_NO_PEERS: Mapping[str, PeerLatency] = {}


class DelayTable(Struct, frozen=True, eq=False, dict=True):
    """Holds what the fresh agents measured: a row for each probe window, sorted by source and then target.

    names: all nodes of the snapshot, ascending; source and target are places in it.
    rtt_ms: the median of the window; NaN: every probe was lost.
    jitter_ms: NaN: unknown.
    """

    names: tuple[str, ...]
    source: Indices
    target: Indices
    rtt_ms: Floats
    jitter_ms: Floats

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Maps each node to its place in `names`."""
        return {name: at for at, name in enumerate(self.names)}

    @cached_property
    def keys(self) -> NDArray[Any]:
        """Returns one number for each directed pair, in ascending order."""
        return self.source.astype(np.int64) * max(1, len(self.names)) + self.target

    @property
    def is_lost(self) -> NDArray[np.bool_]:
        """Tells whether each window has no reply."""
        return np.isnan(self.rtt_ms)

    def rows_of(self, source: Indices, target: Indices) -> Indices:
        """Returns the row of each pair; -1: it was not probed."""
        pair = source.astype(np.int64) * max(1, len(self.names)) + target
        if not len(self.keys):
            return np.full(pair.shape, -1)
        row = np.minimum(np.searchsorted(self.keys, pair), len(self.keys) - 1)
        return np.where(self.keys[row] == pair, row, -1)

    @cached_property
    def node_medians(self) -> Floats:
        """Returns the median round trip that each node measured; NaN: none."""
        return grouped_median(self.source, self.rtt_ms, len(self.names))

    @cached_property
    def node_jitters(self) -> Floats:
        """Returns the median jitter that each node measured; NaN: none."""
        return grouped_median(self.source, self.jitter_ms, len(self.names))


def delay_table(snapshot: Snapshot, now: float) -> DelayTable:
    """Collects what fresh nodes measured to nodes of the snapshot with at least one probe. now: monotonic seconds."""
    names = tuple(sorted(snapshot.nodes))
    index = {name: at for at, name in enumerate(names)}
    source, target, rtt_ms, jitter_ms = list[int](), list[int](), list[float](), list[float]()
    unknown = float("nan")
    for at, name in enumerate(names):
        state = snapshot.nodes[name]
        peers = state.latency.peers if state.latency and state.freshness(now) is Freshness.FRESH else _NO_PEERS
        for peer, window in sorted(peers.items()):
            place = index.get(peer)
            if place is not None and place != at and window.sent:
                source.append(at)
                target.append(place)
                rtt_ms.append(unknown if window.p50_ms is None else window.p50_ms)
                jitter_ms.append(unknown if window.jitter_ms is None else window.jitter_ms)
    return DelayTable(
        names,
        np.array(source, np.intp),
        np.array(target, np.intp),
        np.array(rtt_ms, np.float64),
        np.array(jitter_ms, np.float64),
    )


def grouped_median(group: Indices, values: Floats, groups: int) -> Floats:
    """Returns the median of each group's values without the NaN ones; NaN where a group has none."""
    return grouped_quantiles(group, values, groups, (0.5,))[0]


def grouped_quantiles(group: Indices, values: Floats, groups: int, quantiles: tuple[float, ...]) -> list[Floats]:
    """Returns for each quantile an array by group, NaN where the group has no value. Interpolated linearly."""
    known = ~np.isnan(values)
    order = np.lexsort((values[known], group[known]))
    ordered, counts = values[known][order], np.bincount(group[known], minlength=groups)
    begin = np.cumsum(counts) - counts
    results = []
    for quantile in quantiles:
        place = begin + quantile * np.maximum(counts - 1, 0)
        low = np.floor(place).astype(np.intp)
        if len(ordered):
            last = len(ordered) - 1
            lower, upper = ordered[np.minimum(low, last)], ordered[np.minimum(np.ceil(place).astype(np.intp), last)]
            result = lower + (place - low) * (upper - lower)
        else:
            result = np.zeros(groups)
        results.append(np.where(counts > 0, result, np.nan))
    return results


# Puts nodes into at most 64 groups, and both into an order in which neighbours are near each other.
#
# Zones are the groups where every node has one and there are from two to 64 of them: operators think in zones, and a
# slow node then stands out in its zone. Otherwise groups are made by delay: centres are chosen farthest from all before
# [1], and each node joins the nearest. A centre that nobody joins is a slow node, not a group.
#
# [1] Gonzalez, "Clustering to minimize the maximum intercluster distance", Theoretical Computer Science 38, 1985.

MAX_GROUPS = 64
_NODES_A_GROUP = 4
"""Fewer would make groups of single nodes."""

DistanceRow = Callable[[int], Floats]
"""Maps each node to its round trips to all nodes in ms, NaN where none is known."""


class NodeGrouping(Struct, frozen=True, eq=False, dict=True):
    """Divides the nodes into groups. ids, labels: of each group, in order. group_of: group of each node."""

    ids: tuple[str, ...]
    labels: tuple[str, ...]
    group_of: Indices

    @cached_property
    def order(self) -> Indices:
        """Returns all nodes, group by group."""
        return np.argsort(self.group_of, kind="stable")

    @property
    def sizes(self) -> Indices:
        """Returns how many nodes each group has."""
        return np.bincount(self.group_of, minlength=len(self.ids))


def group_by_zone(zones: Sequence[str]) -> NodeGrouping | None:
    """Makes a group of each zone; None when one is unknown, or they are too few or many. zones: by node, "" unknown."""
    names = sorted(set(zones))
    if "" in names or not 2 <= len(names) <= MAX_GROUPS:
        return None
    number = {name: at for at, name in enumerate(names)}
    return NodeGrouping(tuple(names), tuple(names), np.array([number[zone] for zone in zones], np.intp))


def group_by_delay(names: Sequence[str], zones: Sequence[str], distances: DistanceRow) -> NodeGrouping:
    """Groups nodes around centres; a group has its centre's name and, as its label, the zone of most of its nodes."""
    centres, group_of = _centres(len(names), distances)
    zones_of_group = [
        Counter(zones[node] for node in np.flatnonzero(group_of == at).tolist()) for at in range(len(centres))
    ]
    ids = tuple(names[centre] for centre in centres)
    majority = [(zones.most_common(1) or [("", 0)])[0][0] for zones in zones_of_group]
    labels = tuple(f"{zone} near {name}" if zone else f"near {name}" for name, zone in zip(ids, majority, strict=True))
    return NodeGrouping(ids, labels, group_of)


def _centres(nodes: int, distances: DistanceRow) -> tuple[list[int], Indices]:
    """Returns the centres, and the place of each node's own. Nodes without a distance to any join the first."""
    if not nodes:
        return [], np.zeros(0, np.intp)
    centres, rows = list[int](), list[Floats]()
    nearest = np.full(nodes, np.inf)
    following = 0
    for _ in range(max(1, min(MAX_GROUPS, nodes // _NODES_A_GROUP))):
        row = np.where(np.isnan(row := distances(following)), np.inf, row)
        row[following] = 0.0
        centres.append(following)
        rows.append(row)
        nearest = np.minimum(nearest, row)
        reachable = np.where(np.isinf(nearest), -1.0, nearest)
        following = int(reachable.argmax())
        if reachable[following] <= 0:
            break
    return _drop_single(centres, np.array(rows))


def _drop_single(centres: list[int], rows: Floats) -> tuple[list[int], Indices]:
    """Drops the centres that no other node is near to, unless all are such."""
    sizes = np.bincount(rows.argmin(0), minlength=len(centres))
    kept = [at for at in range(len(centres)) if sizes[at] > 1] or list(range(len(centres)))
    return [centres[at] for at in kept], rows[kept].argmin(0)


def chain(distance: Floats) -> Indices:
    """Orders the groups so that each is followed by the nearest one left. distance: square, NaN unknown."""
    left = np.ones(len(distance), np.bool_)
    far = np.where(np.isnan(distance), np.inf, distance)
    order, at = list[int](), 0
    while left.any():
        order.append(at)
        left[at] = False
        if left.any():
            at = (
                int(np.where(left, far[at], np.inf).argmin())
                if np.isfinite(far[at][left]).any()
                else int(left.argmax())
            )
    return np.array(order, np.intp)


def in_order(grouping: NodeGrouping, order: Indices) -> NodeGrouping:
    """Returns the same groups in this order."""
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    ids, labels = (tuple(each[at] for at in order.tolist()) for each in (grouping.ids, grouping.labels))
    return NodeGrouping(ids, labels, place[grouping.group_of])


# Group by group: medians, intervals, outliers, and the nodes that are slow towards everybody.

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
    """Holds statistics of round trips between groups, in square arrays by source and target; NaN: none was measured."""

    median_ms: Floats
    low_ms: Floats
    high_ms: Floats
    measured: Indices
    lost: Indices


def group_matrix(table: DelayTable, grouping: NodeGrouping) -> GroupMatrix:
    """Makes the matrix from the measured pairs alone."""
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
    """Returns the rows of the table that are far above the median of their groups, the farthest first.

    slow: nodes that are far from everybody: their pairs say no more, and would hide the others'.
    """
    expected = matrix.median_ms.ravel()[_cells(table, grouping)]
    excess = np.nan_to_num(table.rtt_ms - expected, nan=0.0)
    outlying = (excess > OUTLIER_MS) & (table.rtt_ms > OUTLIER_FACTOR * expected)
    outlying &= ~(np.isin(table.source, slow) | np.isin(table.target, slow))
    order = np.argsort(-excess, kind="stable")
    return order[outlying[order]][:MAX_OUTLIERS]


def node_excess_ms(table: DelayTable, grouping: NodeGrouping, matrix: GroupMatrix) -> Floats:
    """Tells by how much each node is farther from the others than its group is: the median, over its windows in both
    directions, of the difference to the median of the two groups. NaN with fewer than MIN_WINDOWS."""
    excess = table.rtt_ms - matrix.median_ms.ravel()[_cells(table, grouping)]
    ends = np.concatenate([table.source, table.target])
    both = np.concatenate([excess, excess])
    result = grouped_median(ends, both, len(table.names))
    windows = np.bincount(ends[~np.isnan(both)], minlength=len(table.names))
    return np.where(windows >= MIN_WINDOWS, result, np.nan)


def slow_nodes(excess_ms: Floats, node_medians: Floats) -> Indices:
    """Returns the nodes whose excess is large, the slowest first."""
    usual = np.maximum(node_medians - excess_ms, 0)
    slow = (excess_ms > SLOW_MS) & (excess_ms > SLOW_SHARE * usual)
    order = np.argsort(-np.nan_to_num(excess_ms, nan=-np.inf), kind="stable")
    return order[slow[order]]


def _cells(table: DelayTable, grouping: NodeGrouping) -> Indices:
    return grouping.group_of[table.source] * len(grouping.ids) + grouping.group_of[table.target]


_UNPLACED = -1


class TableEstimates(Struct, frozen=True, eq=False):
    """Estimates between the table's nodes. fitted: None: there are none. place: of each node in the fit, -1: none."""

    fitted: FittedEstimates | None
    place: Indices

    def between(self, one: Indices, other: Indices) -> EstimateTable:
        """Estimates the pairs (one[k], other[k]); NaN and source -1 where there is none."""
        nothing = [np.full(len(one), np.nan) for _ in range(3)]
        table = EstimateTable(nothing[0], nothing[1], nothing[2], np.full(len(one), -1))
        if self.fitted is None or not len(one):
            return table
        first, second = self.place[one], self.place[other]
        both = (first != _UNPLACED) & (second != _UNPLACED)
        estimated = self.fitted.estimates.between(first[both], second[both])
        for column, values in zip(table, estimated, strict=True):
            column[both] = values
        return table

    def distances(self, node: int) -> Floats:
        """Estimates the round trips from one node to all."""
        every = np.arange(len(self.place))
        return self.between(np.full_like(every, node), every).rtt_ms

    @property
    def pairs(self) -> int:
        """Counts the pairs of nodes that have an estimate, measured ones too."""
        nodes = int(self.fitted.estimates.is_measured.sum()) if self.fitted else 0
        return nodes * (nodes - 1) // 2

    def coordinates(self) -> Floats:
        """Returns x and y of each node in ms, a row each; NaN where it has no place."""
        result = np.full((len(self.place), 2), np.nan)
        members = self.fitted.estimates.model.members if self.fitted else ()
        placed = self.place != _UNPLACED
        if members and placed.any():
            result[placed] = flat_map(members[0])[self.place[placed]]
        return result


def table_estimates(names: Sequence[str], fitted: FittedEstimates | None) -> TableEstimates:
    """Finds the table's nodes in the fit. names: of the table."""
    numbers = fitted.node_indices if fitted else {}
    return TableEstimates(fitted, np.array([numbers.get(name, _UNPLACED) for name in names], np.intp))


def source_name(number: int) -> str:
    """Names a number of EstimateTable.source."""
    return ESTIMATE_SOURCES[number].value


def flat_map(member: EnsembleMember) -> Floats:
    """Projects points on the two directions in which they differ most, in ms. Signs are such that a refit does not
    mirror the map: the farthest node of each axis is on the positive side."""
    points = member.points.T * np.exp(member.log_unit_ms)
    centred = points - points.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    flat = np.zeros((len(points), 2))
    flat[:, : min(2, len(axes))] = centred @ axes[:2].T
    farthest = flat[np.abs(flat).argmax(0), np.arange(2)]
    return np.asarray(flat * np.where(farthest < 0, -1.0, 1.0))


class ClusterView(Struct, frozen=True, eq=False):
    """All that was derived from the inputs of one moment.

    at: Unix seconds. made_at: monotonic seconds.
    inputs: what it was made from.
    coordinates: x and y of each node of the table, NaN unknown.
    excess_ms: by how much each node is farther from the others than its group is.
    """

    at: float
    made_at: float
    inputs: DecisionInputs
    table: DelayTable
    estimates: TableEstimates
    grouping: NodeGrouping
    groups: GroupMatrix
    coordinates: Floats
    excess_ms: Floats
    dead_links: Sequence[DeadLink]

    @property
    def snapshot(self) -> Snapshot:
        return self.inputs.snapshot


def make_view(inputs: DecisionInputs, at: float) -> ClusterView:
    """Derives the view from these inputs."""
    table = delay_table(inputs.snapshot, inputs.now)
    fitted = inputs.estimates if isinstance(inputs.estimates, FittedEstimates) else None
    estimates = table_estimates(table.names, fitted)
    identities = (inputs.snapshot.nodes[name].identity for name in table.names)
    zones = [identity.zone if identity else "" for identity in identities]
    grouping = group_by_zone(zones) or group_by_delay(table.names, zones, estimates.distances)
    matrix = group_matrix(table, grouping)
    grouping = in_order(grouping, chain(np.fmax(matrix.median_ms, matrix.median_ms.T)))
    matrix = group_matrix(table, grouping)
    excess = node_excess_ms(table, grouping, matrix)
    places, dead = estimates.coordinates(), DeadLinkFinder().find(inputs.snapshot, inputs.now)
    return ClusterView(at, inputs.now, inputs, table, estimates, grouping, matrix, places, excess, dead)
