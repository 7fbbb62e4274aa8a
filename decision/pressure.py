"""How little a node's hardware is under pressure: 1 none .. 0 full.

1 - the weighted mean square of what the node reports: PSI shares (docs.kernel.org/accounting/psi.html), load per CPU
up to 1, and the hottest sensor between the policy's low and high. A metric that a node lacks drops out of its
mean; a node with none is unknown. Squares, so that the lightly loaded are alike and the scheduler spreads pods over
them all (docs/decisions/0008), while one full resource counts in full.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct

from clusterstate import measures
from clusterstate.snapshot import Freshness, NodeState
from decision.columns import missing, picked
from decision.freshness import fresh_part, freshness_of, kept_while_fresh
from decision.model import Evidence, Facts, Part, Pod
from decision.policy import Pressure

NAME = "pressure"
NO_METRICS = "no pressure metrics"
SILENT = f"the node is {Freshness.SILENT}"


class Term(Struct, frozen=True):
    """A metric counts as (value - low) / span, held to 0..1."""

    metric: str
    weight: float
    low: float = 0.0
    span: float = 1.0


class PressureScore:
    name = NAME

    def part(self, pod: Pod, nodes: Sequence[str], facts: Facts) -> Part | None:
        settings = facts.policy.scores.pressure
        if not settings.weight:
            return None
        eases = kept_while_fresh((NAME, settings), lambda: _eases(facts), facts)
        values = picked(nodes, eases.known)
        unknown = {node: eases.unknown.get(node, SILENT) for node in missing(nodes, values, eases.known)}
        return Part(NAME, settings.weight, values, unknown)

    def evidence(self, pod: Pod, nodes: Sequence[str], facts: Facts) -> Evidence:
        """The metrics that count, of every node that reports them, fresh or not."""
        metrics = [term.metric for term in terms(facts.policy.scores.pressure)]
        return Evidence({metric: _reported(metric, nodes, facts) for metric in metrics})


def terms(settings: Pressure) -> tuple[Term, ...]:
    """What counts, and how, under these settings."""
    weights, range_celsius = settings.weights, settings.temperature_celsius
    every = (
        Term(measures.CPU_PRESSURE, weights.cpu),
        Term(measures.MEMORY_PRESSURE, weights.memory),
        Term(measures.IO_PRESSURE, weights.io),
        Term(measures.LOAD_PER_CPU, weights.load),
        Term(measures.TEMPERATURE, weights.temperature, range_celsius.low, range_celsius.high - range_celsius.low),
    )
    return tuple(term for term in every if term.weight)


def ease(counted: Sequence[Term], state: NodeState) -> float | None:
    """0 full .. 1 none; None when the node reports none of the metrics."""
    values = {} if state.hardware is None else state.hardware.values
    present = [term for term in counted if term.metric in values]
    if not present:
        return None
    pressures = [min(1.0, max(0.0, (values[term.metric] - term.low) / term.span)) for term in present]
    weighted = sum(term.weight * pressure * pressure for term, pressure in zip(present, pressures, strict=True))
    return 1.0 - weighted / sum(term.weight for term in present)


class _Eases(Struct, frozen=True):
    """Of all nodes in the state: the ease, or why there is none."""

    known: Mapping[str, float]
    unknown: Mapping[str, str]


def _eases(facts: Facts) -> _Eases:
    settings, nodes = facts.policy.scores.pressure, facts.snapshot.nodes
    known = fresh_part(facts.memo.column(NAME, settings, partial(ease, terms(settings)), facts.snapshot), facts)
    return _Eases(known, {node: _why(freshness_of(node, facts)) for node in nodes.keys() - known.keys()})


def _why(freshness: Freshness) -> str:
    return NO_METRICS if freshness is Freshness.FRESH else f"the node is {freshness}"


def _reported(metric: str, nodes: Sequence[str], facts: Facts) -> Mapping[str, float]:
    states = ((node, facts.snapshot.nodes.get(node)) for node in nodes)
    return {
        node: state.hardware.values[metric]
        for node, state in states
        if state is not None and state.hardware is not None and metric in state.hardware.values
    }
