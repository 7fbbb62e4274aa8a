"""Scores nodes by the pressure on their hardware, from 1 for none to 0 for full.

The value is 1 - the weighted mean square of what the node reports: PSI shares (docs.kernel.org/accounting/psi.html),
load per CPU up to 1, and the hottest sensor between the policy's low and high. A metric that a node lacks is left out
of its mean; a node with none is unknown. Squares make lightly loaded nodes alike, so that the scheduler spreads pods
over them all, while one full resource counts in full.
"""

from collections.abc import Mapping, Sequence
from itertools import compress

import numpy as np
from msgspec import Struct

from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo
from leadsman.decision.policy import PressurePolicy
from leadsman.decision.view import Column
from leadsman.state import metric_names
from leadsman.state.snapshot import NodeState

NAME = "pressure"
NO_METRICS_REASON = "no pressure metrics"


class PressureTerm(Struct, frozen=True):
    """Says how a metric counts: (value - low) / span, clipped to 0..1."""

    metric: str
    weight: float
    low: float = 0.0
    span: float = 1.0


class PressureScore:
    """Scores nodes by pressure, under policy.scores.pressure."""

    name = NAME

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        settings = inputs.policy.scores.pressure
        if not settings.weight:
            return None
        return inputs.view().once(NAME, lambda: _score(settings, nodes, inputs), nodes)

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Returns the metrics that count, for every node that reports them, fresh or not."""
        metrics = [term.metric for term in pressure_terms(inputs.policy.scores.pressure)]
        return Evidence({metric: _reported(metric, nodes, inputs) for metric in metrics})


def pressure_terms(settings: PressurePolicy) -> tuple[PressureTerm, ...]:
    """Returns the metrics that count under these settings, and how each does."""
    weights, range_celsius = settings.weights, settings.temperature_celsius
    every = (
        PressureTerm(metric_names.CPU_PRESSURE, weights.cpu),
        PressureTerm(metric_names.MEMORY_PRESSURE, weights.memory),
        PressureTerm(metric_names.IO_PRESSURE, weights.io),
        PressureTerm(metric_names.LOAD_PER_CPU, weights.load),
        PressureTerm(
            metric_names.TEMPERATURE, weights.temperature, range_celsius.low, range_celsius.high - range_celsius.low
        ),
    )
    return tuple(term for term in every if term.weight)


def headroom(counted: Sequence[PressureTerm], state: NodeState) -> float | None:
    """Scores a node from 0 under full pressure to 1 under none; None when it reports none of the metrics."""
    values = {} if state.hardware is None else state.hardware.values
    present = [term for term in counted if term.metric in values]
    if not present:
        return None
    pressures = [min(1.0, max(0.0, (values[term.metric] - term.low) / term.span)) for term in present]
    weighted = sum(term.weight * pressure * pressure for term, pressure in zip(present, pressures, strict=True))
    return 1.0 - weighted / sum(term.weight for term in present)


def _score(settings: PressurePolicy, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore:
    view = inputs.view()
    at = view.index.positions(nodes)
    terms = pressure_terms(settings)
    headrooms = view.column((NAME, settings), lambda states: [headroom(terms, each) for each in states], np.nan)[at]
    fresh = view.fresh[at]
    known = fresh & ~np.isnan(headrooms)
    if known.all():
        return PluginScore(NAME, settings.weight, Column(nodes, headrooms))
    values = Column(list(compress(nodes, known.tolist())), headrooms[known])
    unknown = {
        node: NO_METRICS_REASON if is_fresh else f"the node is {inputs.freshness_of(node)}"
        for node, is_known, is_fresh in zip(nodes, known.tolist(), fresh.tolist(), strict=True)
        if not is_known
    }
    return PluginScore(NAME, settings.weight, values, unknown)


def _reported(metric: str, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, float]:
    states = ((node, inputs.snapshot.nodes.get(node)) for node in nodes)
    return {
        node: state.hardware.values[metric]
        for node, state in states
        if state is not None and state.hardware is not None and metric in state.hardware.values
    }
