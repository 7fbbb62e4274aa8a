"""Groups nodes by delay, under their names, with leadsman.network.layers.

A pair counts with the slower of its directions: as our agents or Goldpinger measured it, else as the static matrix has
it, else with the upper end of its estimate. Two nodes without any of these are never in one group.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from msgspec import Struct

from leadsman.network.estimates import NetworkEstimates
from leadsman.network.layers import Layer, build_layer
from leadsman.network.measured_pairs import Floats, Indices
from leadsman.sources.delay.matrix import DelayMatrix
from leadsman.sources.delay.measurements import Measurements

MAX_NODES = 5_000
"""Above, no groups are made: their matrix of delays takes 100 MB here, up to three times that while groups are made."""


class DelayGroups(Struct, frozen=True, eq=False):
    """Groups of nodes, one set of groups for each layer.

    nodes: in order; layers have them by number.
    made_at: monotonic seconds.
    """

    nodes: tuple[str, ...]
    layers: tuple[Layer, ...]
    made_at: float

    def named(self) -> Mapping[str, Sequence[Sequence[str]]]:
        """Layer, as "5 ms" → its groups of two nodes or more, the largest first."""
        return {
            layer_title(layer.limit_ms): _largest([self._names(group) for group in layer.groups])
            for layer in self.layers
        }

    def among(self, nodes: Collection[str]) -> Mapping[str, Sequence[Sequence[str]]]:
        """As `named`, of these nodes only; a node alone among them is a group of one."""
        selected = set(nodes)
        return {
            layer_title(layer.limit_ms): sorted(
                filter(None, ([n for n in self._names(g) if n in selected] for g in layer.groups))
            )
            for layer in self.layers
        }

    def _names(self, group: Indices) -> list[str]:
        return [self.nodes[number] for number in group.tolist()]


def layer_title(limit_ms: float) -> str:
    """The name of a layer on pages, as "5 ms"."""
    return f"{limit_ms:g} ms"


def _largest(groups: list[list[str]]) -> list[list[str]]:
    return sorted((group for group in groups if len(group) > 1), key=lambda group: (-len(group), group))


def group_nodes(
    measured: Measurements,
    estimates: NetworkEstimates | None,
    matrices: Sequence[DelayMatrix],
    limits_ms: Sequence[float],
    made_at: float,
    before: DelayGroups | None = None,
) -> DelayGroups:
    """Groups nodes, one layer for each limit.

    estimates: by the numbers of `measured`.
    before: its groups stay where they still hold.
    """
    nodes = tuple(sorted(set(measured.nodes).union(*(matrix.nodes for matrix in matrices))))
    if not limits_ms or len(nodes) > MAX_NODES:
        return DelayGroups((), (), made_at)
    delay_ms = _delay_square(nodes, measured, estimates, matrices)
    layers = (_layer(delay_ms, limit, _previous_groups(before, nodes, limit)) for limit in sorted(set(limits_ms)))
    return DelayGroups(nodes, tuple(layers), made_at)


def _layer(delay_ms: Floats, limit_ms: float, before: Sequence[int]) -> Layer:
    """The limit is rounded down to the delays' precision, as they were rounded up, so that no rounding hides a
    violation."""
    limit = np.float32(limit_ms)
    down = limit if float(limit) <= limit_ms else np.nextafter(limit, np.float32(-1))
    return build_layer(delay_ms, float(down), np.array(before, np.intp))._replace(limit_ms=limit_ms)


def _previous_groups(before: DelayGroups | None, nodes: Sequence[str], limit_ms: float) -> list[int]:
    layer = next((layer for layer in before.layers if layer.limit_ms == limit_ms), None) if before else None
    group = dict(zip(before.nodes, layer.group_of.tolist(), strict=True)) if before and layer else {}
    return [group.get(node, -1) for node in nodes]


def _delay_square(
    nodes: Sequence[str], measured: Measurements, estimates: NetworkEstimates | None, matrices: Sequence[DelayMatrix]
) -> Floats:
    """Square and symmetric, NaN where there is no value. A value that is filled in later replaces an earlier one."""
    number = {node: at for at, node in enumerate(nodes)}
    own = np.array([number[node] for node in measured.nodes], np.intp)
    delay_ms = _estimated(len(nodes), own, estimates)
    for matrix in reversed(matrices):
        rows, of = np.array([(number[node], row) for node, row in matrix.rows.items()], np.intp).T
        delay_ms[np.ix_(rows, rows)] = _round_up(np.maximum(matrix.rtt_ms, matrix.rtt_ms.T)[np.ix_(of, of)])
    source, target = own[measured.source], own[measured.target]
    one, other = np.concatenate([source, target]), np.concatenate([target, source])
    delay_ms[one, other] = 0
    np.maximum.at(delay_ms, (one, other), np.tile(_round_up(measured.rtt_ms), 2))
    np.fill_diagonal(delay_ms, 0)
    return delay_ms


def _estimated(nodes: int, own: Indices, estimates: NetworkEstimates | None) -> Floats:
    delay_ms = np.full((nodes, nodes), np.nan, np.float32)
    if estimates is not None:
        for row, at in enumerate(own):
            delay_ms[at, own] = estimates.row(row).high_ms
    return np.maximum(delay_ms, delay_ms.T, out=delay_ms)


def _round_up(rtt_ms: Floats) -> Floats:
    """In single precision, never less than the value given."""
    rounded = rtt_ms.astype(np.float32)
    return np.where(rounded < rtt_ms, np.nextafter(rounded, np.float32(np.inf)), rounded)
