"""Estimates by the nodes' names, and what a fit goes on from."""

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from leadsman.decision.delay.views import EstimatedRow
from leadsman.network.estimates import ESTIMATE_SOURCES, NetworkEstimates
from leadsman.network.fitting import FitBudget, fit_network
from leadsman.network.measured_pairs import Indices
from leadsman.network.warm_start import carry_over, moved_nodes
from leadsman.sources.delay.measurements import Measurements

MAX_MOVED_SHARE = 0.5
"""Share of the nodes. When more have moved, the points of the others are no place to begin at."""

SEED = 0
"""The same measurements give the same estimates in every replica."""


class FittedEstimates:
    """A view as leadsman.decision.delay.views.Estimates wants it. made_at: monotonic seconds when the measurements were
    read."""

    def __init__(self, measured: Measurements, estimates: NetworkEstimates, made_at: float) -> None:
        self.measured, self.estimates, self.made_at = measured, estimates, made_at

    @cached_property
    def node_indices(self) -> Mapping[str, int]:
        return {node: number for number, node in enumerate(self.measured.nodes)}

    def row(self, reference: str) -> EstimatedRow:
        """EstimatedRow() for a node that the fit has not seen."""
        at = self.node_indices.get(reference)
        if at is None:
            return EstimatedRow()
        rtt_ms, low_ms, high_ms, source = self.estimates.row(at)
        known = np.flatnonzero(source >= 0)
        rtts, lows, highs = (column[known].tolist() for column in (rtt_ms, low_ms, high_ms))
        nodes = [self.measured.nodes[number] for number in known.tolist()]
        return EstimatedRow(nodes, rtts, lows, highs, [ESTIMATE_SOURCES[one].value for one in source[known].tolist()])


def fit_estimates(
    measured: Measurements, made_at: float, before: FittedEstimates | None = None, spend: FitBudget | None = None
) -> FittedEstimates:
    """before: to go on from. spend: None: as many steps as pay, seconds at any size."""
    start = None if before is None else _warm_start(before, measured)
    estimates = fit_network(measured.pairs, np.random.default_rng(SEED), measured.groups, start, spend)
    return FittedEstimates(measured, estimates, made_at)


def _warm_start(before: FittedEstimates, measured: Measurements) -> NetworkEstimates | None:
    """Nodes whose address or place is another, or whose pairs have moved, begin anew; None: all do."""
    was = _previous_indices(before, measured)
    start = carry_over(before.estimates, was, measured.pairs)
    elsewhere = moved_nodes(start.pairs, measured.pairs)
    if not elsewhere.any():
        return start
    if elsewhere.mean() > MAX_MOVED_SHARE:
        return None
    return carry_over(before.estimates, np.where(elsewhere, -1, was), measured.pairs)


def _previous_indices(before: FittedEstimates, measured: Measurements) -> Indices:
    """The number that each node had, -1 if none or if it stood elsewhere."""
    numbers, places = before.node_indices, before.measured.sites
    found = ((numbers.get(node, -1), place) for node, place in zip(measured.nodes, measured.sites, strict=True))
    return np.array([at if at >= 0 and _is_same_site(places[at], place) else -1 for at, place in found], np.intp)


def _is_same_site(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Also while its agent is away, and nobody says where it stands."""
    return one == other or not any(one) or not any(other)
