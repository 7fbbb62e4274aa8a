"""Why this node: a Decision and its inputs → everything there is to tell, as data. `explain_text` makes it readable.

The reasons and scores are the Decision's own. Only the values behind them are asked for again, from the
same plugins and the same inputs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from leadsman.decision.decide import MAX_SCORE, counted_scores, plugin_values, weighted_totals
from leadsman.decision.freshness import freshness_of
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Decision, DelayEvidence, Evidence, PodInfo
from leadsman.decision.plugins import FILTERS, SCORES, FilterPlugin, ScorePlugin
from leadsman.decision.policy import digest
from leadsman.runtime import text_table

KEPT = "kept"
REFUSED = "refused"


class NodeExplanation(Struct, frozen=True):
    """One node's part in the decision.

    score: 0..10, as answered; total: the weighted mean before rounding, 0..1; None: not scored. values: plugin
    → 0 (worst) .. 1 (best), also where the node's own is unknown and the median counted; unknown: plugin → why.
    measured: quantity, with its unit in the name → value. distances: how it stands to each delay bound. age_seconds:
    since the node's last report; None: never seen to report.
    """

    node: str
    verdict: str
    reason: str = ""
    plugin: str = ""
    score: int | None = None
    total: float | None = None
    values: Mapping[str, float] = {}
    unknown: Mapping[str, str] = {}
    measured: Mapping[str, float] = {}
    distances: tuple[DelayEvidence, ...] = ()
    freshness: str = ""
    age_seconds: float | None = None


class ExplainedScore(Struct, frozen=True):
    """A score that was asked. neutral: why it did not count; "" when it did."""

    plugin: str
    weight: float
    neutral: str


class Explanation(Struct, frozen=True):
    """nodes: best first, then the refused by reason. policy: its digest. decided_on: the quantities of the filters.

    faults: plugin → what it raised when asked for its values.
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


def explain(decision: Decision, inputs: DecisionInputs, judged: DecisionInputs | None = None) -> Explanation:
    """inputs: those that the scores were made of; judged: those of the filters, when they are others."""
    nodes = [*decision.kept, *decision.refused]
    faults: dict[str, str] = {}
    by_filters = [_evidence(each, decision.pod, nodes, judged or inputs, faults) for each in FILTERS]
    by_scores = [_evidence(each, decision.pod, nodes, inputs, faults) for each in SCORES]
    told = _explain_nodes(decision, inputs, [*by_filters, *by_scores])
    best = [node.node for node in told if node.score is not None] or _only_node(decision.kept)
    reasons = Counter(refusal.reason for refusal in decision.refused.values())
    return Explanation(
        pod=f"{decision.pod.namespace}/{decision.pod.name}",
        uid=decision.pod.uid,
        headline=_headline(decision, told, reasons),
        first=best[0] if best and not decision.neutral else None,
        runner_up=best[1] if len(best) > 1 and not decision.neutral else None,
        neutral=decision.neutral,
        policy=digest(inputs.policy),
        parts=tuple(ExplainedScore(part.plugin, part.weight, part.neutral) for part in decision.plugin_scores),
        decided_on=tuple(quantity for evidence in by_filters for quantity in evidence.measured),
        refused_by_reason=dict(reasons.most_common()),
        nodes=tuple(told),
        faults=faults,
    )


def _evidence(
    plugin: FilterPlugin | ScorePlugin,
    pod: PodInfo,
    nodes: Sequence[str],
    inputs: DecisionInputs,
    faults: dict[str, str],
) -> Evidence:
    """None, and the fault noted, when the plugin fails: the others' stands."""
    try:
        return plugin.evidence(pod, nodes, inputs)
    except Exception as error:
        faults[plugin.name] = f"{type(error).__name__}: {error}"
        return Evidence()


def _only_node(kept: Sequence[str]) -> list[str]:
    """The one node left, which kube-scheduler takes without asking for scores."""
    return list(kept) if len(kept) == 1 else []


def _explain_nodes(decision: Decision, inputs: DecisionInputs, evidence: Sequence[Evidence]) -> list[NodeExplanation]:
    heard = counted_scores(decision.plugin_scores)
    scored = [node for node in decision.kept if node in decision.scores]
    sums = dict(zip(scored, weighted_totals(heard, scored).tolist(), strict=True)) if heard else {}
    columns = {part.plugin: dict(zip(scored, plugin_values(part, scored).tolist(), strict=True)) for part in heard}
    kept = [_explain_kept(node, decision, sums.get(node), columns, inputs, evidence) for node in decision.kept]
    refused = [_explain_refused(node, decision, inputs, evidence) for node in decision.refused]
    kept.sort(key=lambda told: (-(-1 if told.score is None else told.score), -(told.total or 0.0), told.node))
    return kept + sorted(refused, key=lambda told: (told.reason, told.node))


def _explain_kept(
    node: str,
    decision: Decision,
    total: float | None,
    columns: Mapping[str, Mapping[str, float]],
    inputs: DecisionInputs,
    evidence: Sequence[Evidence],
) -> NodeExplanation:
    return NodeExplanation(
        node,
        KEPT,
        reason="; ".join(each.notes[node] for each in evidence if node in each.notes),
        score=decision.scores.get(node),
        total=total,
        values={plugin: values[node] for plugin, values in columns.items() if node in values},
        unknown={part.plugin: part.unknown[node] for part in decision.plugin_scores if node in part.unknown},
        measured=_measured(node, evidence),
        distances=tuple(one for each in evidence for one in each.distances.get(node, ())),
        freshness=freshness_of(node, inputs).value,
        age_seconds=_age_seconds(node, inputs),
    )


def _explain_refused(
    node: str, decision: Decision, inputs: DecisionInputs, evidence: Sequence[Evidence]
) -> NodeExplanation:
    refusal = decision.refused[node]
    return NodeExplanation(
        node,
        REFUSED,
        reason=refusal.reason,
        plugin=refusal.plugin,
        measured=_measured(node, evidence),
        distances=tuple(one for each in evidence for one in each.distances.get(node, ())),
        freshness=freshness_of(node, inputs).value,
        age_seconds=_age_seconds(node, inputs),
    )


def _measured(node: str, evidence: Sequence[Evidence]) -> Mapping[str, float]:
    return {name: values[node] for each in evidence for name, values in each.measured.items() if node in values}


def _age_seconds(node: str, inputs: DecisionInputs) -> float | None:
    state = inputs.snapshot.nodes.get(node)
    return None if state is None else state.age_seconds(inputs.now)


def _headline(decision: Decision, told: Sequence[NodeExplanation], reasons: Counter[str]) -> str:
    pod, asked = f"{decision.pod.namespace}/{decision.pod.name}", len(told)
    if not told:
        return f"{pod}: no node was asked about"
    if not decision.kept:
        return f"{pod}: none of {asked} nodes: " + text_table.format_counts(reasons)
    first = told[0]
    if len(decision.kept) == 1:
        return f"{pod}: {first.node} is the only one of {asked} nodes" + (f": {first.reason}" if first.reason else "")
    if decision.neutral or not decision.scores:
        return f"{pod}: {len(decision.kept)} of {asked} nodes pass, all alike: {decision.neutral or 'not scored'}"
    return f"{pod}: {first.node} first (score {first.score} of {MAX_SCORE}{_tied(decision, first)})" + (
        f": {first.reason}" if first.reason else ""
    )


def _tied(decision: Decision, first: NodeExplanation) -> str:
    others = list(decision.scores.values()).count(first.score or 0) - 1
    return f", as {others} other{'s' * (others > 1)}" if others else ""
