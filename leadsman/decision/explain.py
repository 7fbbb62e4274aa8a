"""Explains a Decision as data: for each node its verdict, reasons, scores and values. `format_explanation` prints it.

The reasons and scores are the Decision's own. Only the values behind them are computed again, by the same plugins from
the same inputs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from leadsman.decision.decide import (
    FILTERS,
    MAX_SCORE,
    SCORES,
    FilterPlugin,
    ScorePlugin,
    counted_scores,
    plugin_values,
    weighted_totals,
)
from leadsman.decision.delay.explain_delay import evidence_text
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Decision, DelayEvidence, Evidence, PodInfo
from leadsman.decision.policy import digest
from leadsman.decision.telemetry.telemetry_plugins import SCHEDULEONMETRIC
from leadsman.runtime import text_table
from leadsman.state.snapshot import Freshness

KEPT = "kept"
REFUSED = "refused"


class NodeExplanation(Struct, frozen=True):
    """Explains the decision about one node.

    reason: of a refused node with its delays.
    score: 0..10, as answered; None: not scored.
    total: the weighted mean before rounding, 0..1; None: not scored.
    values: plugin → 0 (worst) .. 1 (best), also where the node's own is unknown.
    points: plugin → what it adds to the score, of 10.
    unknown: plugin → why the node's own value is unknown.
    measured: quantity, with its unit in the name → value.
    distances: the node's delay to the target of each bound.
    age_seconds: since the node's last report; None: it has not reported.
    """

    node: str
    verdict: str
    reason: str = ""
    plugin: str = ""
    score: int | None = None
    total: float | None = None
    values: Mapping[str, float] = {}
    points: Mapping[str, float] = {}
    unknown: Mapping[str, str] = {}
    measured: Mapping[str, float] = {}
    distances: tuple[DelayEvidence, ...] = ()
    freshness: str = ""
    age_seconds: float | None = None


class ExplainedScore(Struct, frozen=True):
    """A score plugin that applies to the pod. neutral: why it did not count; "" when it did."""

    plugin: str
    weight: float
    neutral: str


class Explanation(Struct, frozen=True):
    """Everything that can be said about a Decision.

    first, runner_up: None when there is none, or the scores are neutral.
    policy: its digest.
    parts: the score plugins.
    decided_on: the quantities that the filters used.
    nodes: the best first, then the refused by reason.
    faults: plugin → what it raised while it was asked for its values.
    pod_values: what was read of the pod → its value.
    """

    pod: str
    uid: str
    headline: str
    first: str | None
    runner_up: str | None
    neutral: str
    policy: str
    parts: tuple[ExplainedScore, ...]
    decided_on: tuple[str, ...]
    refused_by_reason: Mapping[str, int]
    nodes: tuple[NodeExplanation, ...]
    faults: Mapping[str, str] = {}
    pod_values: Mapping[str, str] = {}


def explain(decision: Decision, inputs: DecisionInputs, filter_inputs: DecisionInputs | None = None) -> Explanation:
    """Explains the decision. inputs: those of the scores. filter_inputs: those of the filters; None: the same."""
    nodes = [*decision.kept, *decision.refused]
    faults: dict[str, str] = {}
    filtered_on = filter_inputs or inputs
    by_filters = [_evidence(each, decision.pod, nodes, filtered_on, faults) for each in FILTERS]
    by_scores = [_evidence(each, decision.pod, nodes, inputs, faults) for each in SCORES]
    explained = _explain_nodes(decision, inputs, [*by_filters, *by_scores])
    best = [node.node for node in explained if node.score is not None]
    if len(decision.kept) == 1:  # kube-scheduler takes it without asking for scores.
        best = list(decision.kept)
    reasons = Counter(refusal.reason for refusal in decision.refused.values())
    return Explanation(
        pod=f"{decision.pod.namespace}/{decision.pod.name}",
        uid=decision.pod.uid,
        headline=_headline(decision, explained, reasons),
        first=best[0] if best and not decision.neutral else None,
        runner_up=best[1] if len(best) > 1 and not decision.neutral else None,
        neutral=decision.neutral,
        policy=digest(inputs.policy),
        parts=tuple(ExplainedScore(part.plugin, part.weight, part.neutral) for part in decision.plugin_scores),
        decided_on=tuple(quantity for evidence in by_filters for quantity in evidence.measured),
        refused_by_reason=dict(reasons.most_common()),
        nodes=tuple(explained),
        faults=faults,
        pod_values={text: value for evidence in (*by_filters, *by_scores) for text, value in evidence.pod.items()},
    )


def _evidence(
    plugin: FilterPlugin | ScorePlugin,
    pod: PodInfo,
    nodes: Sequence[str],
    inputs: DecisionInputs,
    faults: dict[str, str],
) -> Evidence:
    """Returns the plugin's evidence; when it raises, none, and its fault is recorded."""
    try:
        return plugin.evidence(pod, nodes, inputs)
    except Exception as error:
        faults[plugin.name] = f"{type(error).__name__}: {error}"
        return Evidence()


def _explain_nodes(decision: Decision, inputs: DecisionInputs, evidence: Sequence[Evidence]) -> list[NodeExplanation]:
    counted = counted_scores(decision.plugin_scores)
    scored = [node for node in decision.kept if node in decision.scores]
    sums = dict(zip(scored, weighted_totals(counted, scored).tolist(), strict=True)) if counted else {}
    columns = {part.plugin: dict(zip(scored, plugin_values(part, scored).tolist(), strict=True)) for part in counted}
    weights = sum(part.weight for part in counted)
    shares = {part.plugin: part.weight / weights for part in counted}
    kept = [
        _explain_node(
            node,
            inputs,
            evidence,
            verdict=KEPT,
            reason="; ".join(each.notes[node] for each in evidence if node in each.notes),
            score=decision.scores.get(node),
            total=sums.get(node),
            values=(values := {plugin: column[node] for plugin, column in columns.items() if node in column}),
            points={plugin: round(MAX_SCORE * shares[plugin] * value, 2) for plugin, value in values.items()},
            unknown={part.plugin: part.unknown[node] for part in decision.plugin_scores if node in part.unknown},
        )
        for node in decision.kept
    ]
    kept.sort(key=lambda node: (-(-1 if node.score is None else node.score), -(node.total or 0.0), node.node))
    refused = sorted(decision.refused.items(), key=lambda each: (each[1].reason, each[0]))
    return kept + [
        _explain_node(
            node,
            inputs,
            evidence,
            verdict=REFUSED,
            reason=": ".join(filter(None, (refusal.reason, _delays(node, evidence)))),
            plugin=refusal.plugin,
        )
        for node, refusal in refused
    ]


def _explain_node(
    node: str, inputs: DecisionInputs, evidence: Sequence[Evidence], **of_verdict: Any
) -> NodeExplanation:
    state = inputs.snapshot.nodes.get(node)
    return NodeExplanation(
        node,
        **of_verdict,
        measured={name: values[node] for each in evidence for name, values in each.measured.items() if node in values},
        distances=_distances(node, evidence),
        freshness=inputs.freshness_of(node).value,
        age_seconds=None if state is None else state.age_seconds(inputs.now),
    )


def _distances(node: str, evidence: Sequence[Evidence]) -> tuple[DelayEvidence, ...]:
    return tuple(one for each in evidence for one in each.distances.get(node, ()))


def _delays(node: str, evidence: Sequence[Evidence]) -> str:
    texts = (each.doubt if each.rtt_ms is None else evidence_text(each) for each in _distances(node, evidence))
    return "; ".join(filter(None, texts))


def _headline(decision: Decision, explained: Sequence[NodeExplanation], reasons: Counter[str]) -> str:
    pod, candidates = f"{decision.pod.namespace}/{decision.pod.name}", len(explained)
    if not explained:
        return f"{pod}: kube-scheduler sent no node"
    if not decision.kept:
        return f"{pod}: none of {candidates} nodes passes: " + text_table.format_counts(reasons)
    first = explained[0]
    if len(decision.kept) == 1:
        return f"{pod}: only {first.node} of {candidates} nodes passes" + (f": {first.reason}" if first.reason else "")
    if decision.neutral or not decision.scores:
        return f"{pod}: {len(decision.kept)} of {candidates} nodes pass, all alike: {decision.neutral or 'not scored'}"
    others = list(decision.scores.values()).count(first.score or 0) - 1
    tied = f", as {others} other{'s' * (others > 1)}" if others else ""
    return f"{pod}: {first.node} first (score {first.score} of {MAX_SCORE}{tied})" + (
        f": {first.reason}" if first.reason else ""
    )


# Formats an Explanation for a terminal.

ROWS, WHOLE_REASONS = 20, 8
"""A table has at most so many nodes; with more than the second, a long reason does not say who measured the delay."""


def format_explanation(explanation: Explanation, nodes: int | None = None) -> str:
    """Writes the headline, a table of at most ROWS nodes, and what was left out of it.

    nodes: how many there are in all; None: the explanation has all of them.
    """
    shown = explanation.nodes[:ROWS]
    left_out = (len(explanation.nodes) if nodes is None else nodes) - len(shown)
    plugins = [part.plugin for part in explanation.parts if not part.neutral]
    header = ["NODE", "VERDICT", "SCORE", *map(str.upper, plugins), *map(_title, explanation.decided_on)]
    cells = [_cells(node, plugins, explanation.decided_on) for node in shown]
    brief = len(shown) > WHOLE_REASONS
    table = text_table.align_with_reason([[*header, "AGE", "REASON"], *cells], brief)
    remarks = [line for remark in _remarks(explanation, shown, left_out) for line in text_table.wrap(remark)]
    return "\n".join([*text_table.wrap(explanation.headline), "", *table, *remarks]) + "\n"


def _cells(node: NodeExplanation, plugins: Sequence[str], quantities: Sequence[str]) -> list[str]:
    return [
        node.node,
        node.verdict,
        "-" if node.score is None else str(node.score),
        *(_value(node, plugin) for plugin in plugins),
        *(
            text_table.format_number(node.measured[quantity]) if quantity in node.measured else "-"
            for quantity in quantities
        ),
        _age(node),
        node.reason,
    ]


def _value(node: NodeExplanation, plugin: str) -> str:
    if plugin not in node.values:
        return "-"
    return f"{'~' if plugin in node.unknown else ''}{node.values[plugin]:.2f}"


def _age(node: NodeExplanation) -> str:
    """Returns the age, and the freshness unless it is fresh."""
    age = [] if node.age_seconds is None else [f"{node.age_seconds:.1f}s"]
    return " ".join([*age, *([] if node.freshness == Freshness.FRESH else [node.freshness])])


def _title(quantity: str) -> str:
    """Returns the unit in capitals like the other titles, and a node's name as it is."""
    unit, space, rest = quantity.partition(" ")
    return unit.upper() + space + rest


def _remarks(explanation: Explanation, shown: Sequence[NodeExplanation], left_out: int) -> list[str]:
    remarks = [f"{left_out} more nodes"] if left_out else []
    if left_out and explanation.refused_by_reason:
        remarks.append("refused: " + text_table.format_counts(explanation.refused_by_reason))
    remarks += [f"score not counted: {part.neutral}" for part in explanation.parts if part.neutral]
    remarks += [f"plugin {plugin} raised while explaining: {fault}" for plugin, fault in explanation.faults.items()]
    remarks += [f"{text} is {value}" for text, value in explanation.pod_values.items()]
    if unknown := {plugin for node in shown for plugin in node.unknown}:
        but = f"; by {SCHEDULEONMETRIC} as 0" if SCHEDULEONMETRIC in unknown else ""
        remarks.append(f"~ unknown, counted as the median{but}")
    return ["", *remarks] if remarks else []
