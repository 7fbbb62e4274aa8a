"""Scores nodes by the pressure on their hardware: 1 none .. 0 full.

The value is 1 - the weighted mean square of what the node reports: PSI shares (docs.kernel.org/accounting/psi.html),
load per CPU up to 1, and the hottest sensor between the policy's low and high. A metric that a node lacks is left out
of its mean; a node with none is unknown. Squares make lightly loaded nodes alike, so that the scheduler spreads pods
over them all (docs/decisions/0008), while one full resource counts in full.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct

from leadsman.decision.columns import missing_nodes, select_column
from leadsman.decision.freshness import cached_while_fresh, fresh_only, freshness_of, not_fresh_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo
from leadsman.decision.policy import PressurePolicy
from leadsman.state import metric_names
from leadsman.state.snapshot import Freshness, NodeState

NAME = "pressure"
NO_METRICS_REASON = "no pressure metrics"
SILENT_REASON = f"the node is {Freshness.SILENT}"


class PressureTerm(Struct, frozen=True):
    """How a metric counts: (value - low) / span, clipped to 0..1."""

    metric: str
    weight: float
    low: float = 0.0
    span: float = 1.0


class PressureScore:
    """The score plugin of policy.scores.pressure."""

    name = NAME

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        settings = inputs.policy.scores.pressure
        if not settings.weight:
            return None
        all_nodes = cached_while_fresh((NAME, settings), lambda: _headrooms(inputs), inputs)
        return inputs.cache.per_objects(NAME, (nodes, all_nodes), lambda: _score(settings.weight, nodes, all_nodes))

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """The metrics that count, for every node that reports them, fresh or not."""
        metrics = [term.metric for term in pressure_terms(inputs.policy.scores.pressure)]
        return Evidence({metric: _reported(metric, nodes, inputs) for metric in metrics})


def pressure_terms(settings: PressurePolicy) -> tuple[PressureTerm, ...]:
    """The metrics that count under these settings, and how."""
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
    """The node's value, 0 full pressure .. 1 none; None when it reports none of the metrics."""
    values = {} if state.hardware is None else state.hardware.values
    present = [term for term in counted if term.metric in values]
    if not present:
        return None
    pressures = [min(1.0, max(0.0, (values[term.metric] - term.low) / term.span)) for term in present]
    weighted = sum(term.weight * pressure * pressure for term, pressure in zip(present, pressures, strict=True))
    return 1.0 - weighted / sum(term.weight for term in present)


class _Headrooms(Struct, frozen=True):
    """The headroom of all nodes in the state, or why it is unknown."""

    known: Mapping[str, float]
    unknown: Mapping[str, str]


def _score(weight: float, nodes: Sequence[str], all_nodes: _Headrooms) -> PluginScore:
    values = select_column(nodes, all_nodes.known)
    missing = missing_nodes(nodes, values, all_nodes.known)
    return PluginScore(NAME, weight, values, {node: all_nodes.unknown.get(node, SILENT_REASON) for node in missing})


def _headrooms(inputs: DecisionInputs) -> _Headrooms:
    settings, nodes = inputs.policy.scores.pressure, inputs.snapshot.nodes
    known = fresh_only(
        inputs.cache.per_node(NAME, settings, partial(headroom, pressure_terms(settings)), inputs.snapshot), inputs
    )
    unknown = dict.fromkeys(nodes.keys() - known.keys(), NO_METRICS_REASON)
    unknown |= {node: f"the node is {freshness_of(node, inputs)}" for node in not_fresh_nodes(inputs)}
    return _Headrooms(known, unknown)


def _reported(metric: str, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, float]:
    states = ((node, inputs.snapshot.nodes.get(node)) for node in nodes)
    return {
        node: state.hardware.values[metric]
        for node, state in states
        if state is not None and state.hardware is not None and metric in state.hardware.values
    }
