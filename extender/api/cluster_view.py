"""The cluster at one moment, as all pages show it: delay table, groups, map and slow nodes, made together.

Making it takes about 0.3 s at 5,000 nodes, so it is made on a thread, when somebody looks, and at most every
MIN_AGE_SECONDS.
"""

import numpy as np
from msgspec import Struct

from extender.api.delay_table import DelayTable, delay_table
from extender.api.estimated import TableEstimates, table_estimates
from extender.api.group_delays import GroupMatrix, group_matrix, node_excess_ms
from extender.api.grouping import NodeGrouping, chain, group_by_delay, group_by_zone, in_order
from leadsman.decision.inputs import DecisionInputs
from leadsman.network.measured_pairs import Floats
from leadsman.sources.delay.fitted_estimates import FittedEstimates
from leadsman.state.snapshot import Snapshot


class ClusterView(Struct, frozen=True, eq=False):
    """What was derived from the inputs of one moment.

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

    @property
    def snapshot(self) -> Snapshot:
        return self.inputs.snapshot


def make_view(inputs: DecisionInputs, at: float) -> ClusterView:
    """The view of these inputs."""
    table = delay_table(inputs.snapshot, inputs.now)
    fitted = inputs.estimates if isinstance(inputs.estimates, FittedEstimates) else None
    estimates = table_estimates(table.names, fitted)
    zones = [_zone(inputs.snapshot, name) for name in table.names]
    grouping = group_by_zone(zones) or group_by_delay(table.names, zones, estimates.distances)
    matrix = group_matrix(table, grouping)
    grouping = in_order(grouping, chain(np.fmax(matrix.median_ms, matrix.median_ms.T)))
    matrix = group_matrix(table, grouping)
    excess = node_excess_ms(table, grouping, matrix)
    return ClusterView(at, inputs.now, inputs, table, estimates, grouping, matrix, estimates.coordinates(), excess)


def _zone(snapshot: Snapshot, name: str) -> str:
    identity = snapshot.nodes[name].identity
    return identity.zone if identity else ""
