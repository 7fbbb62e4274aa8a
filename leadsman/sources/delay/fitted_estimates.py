"""Estimates of a fit under the nodes' names, and where the next fit starts."""

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
"""Share of the nodes. When more have moved, the positions of the others are no good start either."""

SEED = 0
"""The same measurements give the same estimates in every replica."""


class FittedEstimates:
    """Estimates as an EstimateView of leadsman.decision.delay.views.

    made_at: monotonic seconds when the measurements were read.
    """

    def __init__(self, measured: Measurements, estimates: NetworkEstimates, made_at: float) -> None:
        self.measured, self.estimates, self.made_at = measured, estimates, made_at

    @cached_property
    def node_indices(self) -> Mapping[str, int]:
        """Node → its number in the fit."""
        return {node: number for number, node in enumerate(self.measured.nodes)}

    def row(self, reference: str) -> EstimatedRow:
        """The estimates from one node to all others; EstimatedRow() for a node that is not in the fit."""
        at = self.node_indices.get(reference)
        if at is None:
            return EstimatedRow()
        rtt_ms, low_ms, high_ms, source = self.estimates.row(at)
        estimated = np.flatnonzero(source >= 0)
        rtts, lows, highs = (column[estimated].tolist() for column in (rtt_ms, low_ms, high_ms))
        nodes = [self.measured.nodes[number] for number in estimated.tolist()]
        sources = [ESTIMATE_SOURCES[number].value for number in source[estimated].tolist()]
        return EstimatedRow(nodes, rtts, lows, highs, sources)


def fit_estimates(
    measured: Measurements, made_at: float, before: FittedEstimates | None = None, budget: FitBudget | None = None
) -> FittedEstimates:
    """Fits estimates to the measurements.

    before: the fit to start from.
    budget: None: as many steps as improve it, seconds at any size.
    """
    start = None if before is None else _warm_start(before, measured)
    estimates = fit_network(measured.pairs, np.random.default_rng(SEED), measured.groups, start, budget)
    return FittedEstimates(measured, estimates, made_at)


def _warm_start(before: FittedEstimates, measured: Measurements) -> NetworkEstimates | None:
    """The previous estimates without nodes that moved: another address, zone or rack, or other delays.

    None: too many moved.
    """
    previous = _previous_indices(before, measured)
    start = carry_over(before.estimates, previous, measured.pairs)
    moved = moved_nodes(start.pairs, measured.pairs)
    if not moved.any():
        return start
    if moved.mean() > MAX_MOVED_SHARE:
        return None
    return carry_over(before.estimates, np.where(moved, -1, previous), measured.pairs)


def _previous_indices(before: FittedEstimates, measured: Measurements) -> Indices:
    """The number that each node had in the previous fit, -1 if none or if its site is another one now."""
    numbers, sites = before.node_indices, before.measured.sites
    nodes = ((numbers.get(node, -1), site) for node, site in zip(measured.nodes, measured.sites, strict=True))
    return np.array([at if at >= 0 and _is_same_site(sites[at], site) else -1 for at, site in nodes], np.intp)


def _is_same_site(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """An unknown site, as while the node's agent is away, counts as the same."""
    return one == other or not any(one) or not any(other)
