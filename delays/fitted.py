"""Estimates by the nodes' names, and what a fit goes on from."""

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from decision.sources import EstimatedRow
from delays.measured import Measured
from topology.estimates import SOURCES, Estimates
from topology.fit import Effort, fit
from topology.pairs import Indices
from topology.warm import carried, moved

MOST_MOVED = 0.5
"""Share of the nodes. When more have moved, the points of the others are no place to begin at."""

SEED = 0
"""The same measurements give the same estimates in every replica."""


class Fitted:
    """A view as decision.sources.Estimates wants it. made_at: monotonic seconds when the measurements were read."""

    def __init__(self, measured: Measured, estimates: Estimates, made_at: float) -> None:
        self.measured, self.estimates, self.made_at = measured, estimates, made_at

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        return {node: number for number, node in enumerate(self.measured.nodes)}

    def row(self, reference: str) -> EstimatedRow:
        """EstimatedRow() for a node that the fit has not seen."""
        at = self.numbers.get(reference)
        if at is None:
            return EstimatedRow()
        rtt_ms, low_ms, high_ms, source = self.estimates.row(at)
        known = np.flatnonzero(source >= 0)
        rtts, lows, highs = (column[known].tolist() for column in (rtt_ms, low_ms, high_ms))
        nodes = [self.measured.nodes[number] for number in known.tolist()]
        return EstimatedRow(nodes, rtts, lows, highs, [SOURCES[one].value for one in source[known].tolist()])


def fitted(measured: Measured, made_at: float, before: Fitted | None = None, spend: Effort | None = None) -> Fitted:
    """before: to go on from. spend: None: as many steps as pay, seconds at any size."""
    start = None if before is None else _carried(before, measured)
    estimates = fit(measured.pairs, np.random.default_rng(SEED), measured.groups, start, spend)
    return Fitted(measured, estimates, made_at)


def _carried(before: Fitted, measured: Measured) -> Estimates | None:
    """Nodes whose address or place is another, or whose pairs have moved, begin anew; None: all do."""
    was = _was(before, measured)
    start = carried(before.estimates, was, measured.pairs)
    elsewhere = moved(start.pairs, measured.pairs)
    if not elsewhere.any():
        return start
    if elsewhere.mean() > MOST_MOVED:
        return None
    return carried(before.estimates, np.where(elsewhere, -1, was), measured.pairs)


def _was(before: Fitted, measured: Measured) -> Indices:
    """The number that each node had, -1 if none or if it stood elsewhere."""
    numbers, places = before.numbers, before.measured.places
    found = ((numbers.get(node, -1), place) for node, place in zip(measured.nodes, measured.places, strict=True))
    return np.array([at if at >= 0 and _same(places[at], place) else -1 for at, place in found], np.intp)


def _same(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Also while its agent is away, and nobody says where it stands."""
    return one == other or not any(one) or not any(other)
