"""The view is the cluster at one moment, as all pages show it: delay table, groups, map and slow nodes, made together.

Making it takes about 0.3 s at 5,000 nodes, so it is made on a thread, when somebody looks, and at most every
MIN_AGE_SECONDS.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from extender.api.delay_table import (
    DelayTable,
    GroupMatrix,
    NodeGrouping,
    chain,
    delay_table,
    group_by_delay,
    group_by_zone,
    group_matrix,
    in_order,
    node_excess_ms,
)
from extender.dead_links import DeadLink, DeadLinkFinder
from leadsman.decision.inputs import DecisionInputs
from leadsman.network.embedding import EnsembleMember
from leadsman.network.estimates import ESTIMATE_SOURCES, EstimateTable
from leadsman.network.measured_pairs import Floats, Indices
from leadsman.sources.delay.fitted_estimates import FittedEstimates
from leadsman.state.snapshot import Snapshot

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
    zones = [_zone(inputs.snapshot, name) for name in table.names]
    grouping = group_by_zone(zones) or group_by_delay(table.names, zones, estimates.distances)
    matrix = group_matrix(table, grouping)
    grouping = in_order(grouping, chain(np.fmax(matrix.median_ms, matrix.median_ms.T)))
    matrix = group_matrix(table, grouping)
    excess = node_excess_ms(table, grouping, matrix)
    places, dead = estimates.coordinates(), DeadLinkFinder().find(inputs.snapshot, inputs.now)
    return ClusterView(at, inputs.now, inputs, table, estimates, grouping, matrix, places, excess, dead)


def _zone(snapshot: Snapshot, name: str) -> str:
    identity = snapshot.nodes[name].identity
    return identity.zone if identity else ""
