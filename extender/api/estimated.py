"""The estimates under the numbers of a delay table, and the map that they draw."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from leadsman.network.embedding import EnsembleMember
from leadsman.network.estimates import ESTIMATE_SOURCES, EstimateTable
from leadsman.network.measured_pairs import Floats, Indices
from leadsman.sources.delay.fitted_estimates import FittedEstimates

_UNPLACED = -1


class TableEstimates(Struct, frozen=True, eq=False):
    """fitted: None: there are none. place: the number in the fit of each of the table's nodes, -1: it is not in it."""

    fitted: FittedEstimates | None
    place: Indices

    def between(self, one: Indices, other: Indices) -> EstimateTable:
        """Of the pairs (one[k], other[k]); NaN and source -1 where there is none."""
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
        """From one node to all."""
        every = np.arange(len(self.place))
        return self.between(np.full_like(every, node), every).rtt_ms

    @property
    def pairs(self) -> int:
        """Pairs of nodes that have an estimate, measured ones too."""
        nodes = int(self.fitted.estimates.is_measured.sum()) if self.fitted else 0
        return nodes * (nodes - 1) // 2

    def coordinates(self) -> Floats:
        """x and y of each node in ms, a row each; NaN where it has no place."""
        result = np.full((len(self.place), 2), np.nan)
        members = self.fitted.estimates.model.members if self.fitted else ()
        placed = self.place != _UNPLACED
        if members and placed.any():
            result[placed] = flat_map(members[0])[self.place[placed]]
        return result


def table_estimates(names: Sequence[str], fitted: FittedEstimates | None) -> TableEstimates:
    """names: of the table."""
    numbers = fitted.node_indices if fitted else {}
    return TableEstimates(fitted, np.array([numbers.get(name, _UNPLACED) for name in names], np.intp))


def source_name(number: int) -> str:
    """Of EstimateTable.source."""
    return ESTIMATE_SOURCES[number].value


def flat_map(member: EnsembleMember) -> Floats:
    """The two directions in which the member's points differ most, in ms. Signs are such that a refit does not mirror
    the map: the farthest node of each axis is on the positive side."""
    points = member.points.T * np.exp(member.log_unit_ms)
    centred = points - points.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    flat = np.zeros((len(points), 2))
    flat[:, : min(2, len(axes))] = centred @ axes[:2].T
    farthest = flat[np.abs(flat).argmax(0), np.arange(2)]
    return np.asarray(flat * np.where(farthest < 0, -1.0, 1.0))
