"""Away from nodes that treat pods of this type badly, and back when that is forgotten or made good.

A node's value is 1 unless there is a doubt about it: then its square, at most BELOW, so that it ties with none that is
beyond doubt, and two doubts seldom round to one score. A node whose doubt has faded and who has not proved itself since
is shown as good to few pods only, chosen by the pod's UID, until one of them did well there: that is the bounded
exploration. No evidence: the prior, as good as any.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b

from msgspec import Struct

from leadsman.decision.columns import Column
from leadsman.decision.freshness import cached_while_fresh, fresh_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo
from leadsman.decision.policy import RewardRule
from leadsman.rewards import kuberl, pod_types, reward_updates
from leadsman.rewards.posterior import NodePosterior, NodePosteriors, Trials
from leadsman.rewards.quality import quality_factors
from leadsman.state.reward_view import AgedReward

NAME = "rewards"

NO_DOUBT_VALUE = 0.98
MAX_DOUBTED_VALUE = 0.94
"""Rounds to 9 of 10."""

FADE_STEP_SECONDS = 10.0
"""Evidence is faded in steps of this, so that it is computed once for all pods in between."""

EXPLORE_RATIO = 0.3
"""Of pods that see a returning node as good. Several pods may come before the first has failed or not."""

_PROVED_TRIALS = 1.0
_FORGOTTEN_TRIALS = 0.02
_NO_DOUBT_TRIALS = 0.01
"""Of failure. Below it the value is 1."""


class TypeAssessment(Struct, frozen=True):
    """Of one type. values: node → 0..1, without those at 1. returning: shown as good to some pods only."""

    posteriors: Mapping[str, NodePosterior]
    values: Mapping[str, float]
    returning: Sequence[str]


class RewardsScore:
    name = NAME

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        weight, found = inputs.policy.scores.rewards.weight, assess_type(pod_type_of(pod), inputs)
        if not weight or found is None:
            return None
        hidden = {node: MAX_DOUBTED_VALUE for node in found.returning if _draw(pod, node) >= EXPLORE_RATIO}
        values = {**found.values, **hidden}
        return PluginScore(
            NAME,
            weight,
            Column(nodes, [values.get(node, 1.0) for node in nodes]),
            neutral=_outage_reason(nodes, inputs),
        )

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """What the type's pods met on each node; nodes without evidence are absent."""
        found = assess_type(pod_type_of(pod), inputs)
        told = {} if found is None else {node: found.posteriors[node] for node in nodes if node in found.posteriors}
        return Evidence(
            {
                "reward_ratio": {node: each.expected_ratio for node, each in told.items()},
                "reward_lower_ratio": {node: each.lower_ratio for node, each in told.items()},
                "reward_blame_ratio": {node: each.blame_ratio for node, each in told.items()},
                "reward_samples": {node: each.samples for node, each in told.items()},
            }
            if told
            else {}
        )


def pod_type_of(pod: PodInfo) -> str:
    kind, _, owner = pod.workload.partition("/")
    return pod_types.pod_type(pod.labels, owner or pod.name, "Job" if kind == "job" else "")


def assess_type(pod_type: str, inputs: DecisionInputs) -> TypeAssessment | None:
    """None when nothing is known of the type."""
    remembered = inputs.snapshot.rewards.get(pod_type)
    if remembered is None:
        return None
    rule, step = inputs.policy.scores.rewards.rule, inputs.now // FADE_STEP_SECONDS
    return inputs.cache.per_object(
        remembered, (NAME, rule, step), lambda: _assess_type(remembered, rule, step * FADE_STEP_SECONDS)
    )


def _assess_type(remembered: Mapping[str, AgedReward], rule: RewardRule, now: float) -> TypeAssessment:
    faded = {node: faded_trials(each, now) for node, each in remembered.items()}
    found = NodePosteriors(faded)
    if rule is RewardRule.KUBERL:
        values = {node: kuberl.score(each.reward.kuberl) / 10 for node, each in remembered.items()}
        return TypeAssessment(found, {node: value for node, value in values.items() if value < 1.0}, ())
    slow = quality_factors({node: each.reward.qualities for node, each in remembered.items() if each.reward.qualities})
    failed = {node for node, each in faded.items() if each.failed >= _NO_DOUBT_TRIALS}
    values = {node: found[node].value * slow.get(node, 1.0) for node in failed | slow.keys()}
    doubted = {node: min(MAX_DOUBTED_VALUE, value * value) for node, value in values.items() if value < NO_DOUBT_VALUE}
    return TypeAssessment(
        found, doubted, [node for node, each in faded.items() if node not in doubted and _returning(each)]
    )


def faded_trials(remembered: AgedReward, now: float) -> Trials:
    """The node's trials, faded to `now`."""
    reward = remembered.reward
    left = reward_updates.remaining_share(remembered.age_seconds(now), reward.half_life_seconds)
    recent = min(reward.recent, reward_updates.MAX_RECENT_TRIALS)
    return Trials(reward.healthy * left, recent * left, reward.failed * left)


def _returning(trials: Trials) -> bool:
    return trials.recent < _PROVED_TRIALS and trials.failed > _FORGOTTEN_TRIALS


def _draw(pod: PodInfo, node: str) -> float:
    """0..1, the same each time this pod is asked about."""
    seed = f"{pod.uid or pod.namespace + '/' + pod.name} {node}"
    return int.from_bytes(blake2b(seed.encode(), digest_size=8).digest()) / 2**64


def _outage_reason(nodes: Sequence[str], inputs: DecisionInputs) -> str:
    """Why the past says nothing now: no agent reports any longer, so the store is away."""
    fresh = cached_while_fresh(NAME, lambda: frozenset(fresh_nodes(inputs)), inputs)
    heard = sum(map(fresh.__contains__, nodes))
    return f"{NAME}: {heard} of {len(nodes)} nodes report, fewer than half" if 2 * heard < len(nodes) else ""
