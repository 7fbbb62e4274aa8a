"""Scores nodes by how pods of the type fared on them: avoids bad nodes, and returns when that has faded.

A node's value is 1 unless there is doubt about it. Then it is the square of its value, at most MAX_DOUBTED_VALUE, so
that it never ties with a node without doubt and two doubts seldom round to one score. A node whose doubt has faded, but
which has no success since, looks good only to a few pods, chosen by their UID, until one of them did well there: that
bounds exploration. A node without evidence has the prior, as good as any.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b

from msgspec import Struct

from leadsman.decision.columns import Column
from leadsman.decision.freshness import cached_while_fresh, fresh_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo
from leadsman.decision.pod_type import pod_type_of
from leadsman.decision.policy import RewardRule
from leadsman.rewards import kuberl, reward_updates
from leadsman.rewards.posterior import NodePosterior, NodePosteriors, Trials
from leadsman.rewards.quality import quality_factors
from leadsman.state.reward_view import AgedReward

NAME = "rewards"

NO_DOUBT_VALUE = 0.98
MAX_DOUBTED_VALUE = 0.94
"""Rounds to 9 of 10."""

FADE_STEP_SECONDS = 10.0
"""Evidence fades in steps of this, so that it is computed once for all pods in between."""

EXPLORE_RATIO = 0.3
"""Share of the pods to which a returning node looks good. Several may come before the first has failed or not."""

_PROVED_TRIALS = 1.0
_FORGOTTEN_TRIALS = 0.02
_NO_DOUBT_TRIALS = 0.01
"""Failed trials below which the value is 1."""


class TypeAssessment(Struct, frozen=True):
    """What the rewards of one pod type say about the nodes.

    values: node → 0..1, without those at 1.
    returning: nodes that look good to some pods only.
    """

    posteriors: Mapping[str, NodePosterior]
    values: Mapping[str, float]
    returning: Sequence[str]


class RewardsScore:
    """The score plugin of policy.scores.rewards."""

    name = NAME

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        weight, assessment = inputs.policy.scores.rewards.weight, assess_type(pod_type_of(pod), inputs)
        if not weight or assessment is None:
            return None
        hidden = {node: MAX_DOUBTED_VALUE for node in assessment.returning if _draw(pod, node) >= EXPLORE_RATIO}
        values = {**assessment.values, **hidden}
        return PluginScore(
            NAME,
            weight,
            Column(nodes, [values.get(node, 1.0) for node in nodes]),
            neutral=_outage_reason(nodes, inputs),
        )

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """How the type's pods fared on each node; nodes without evidence are absent."""
        assessment = assess_type(pod_type_of(pod), inputs)
        if assessment is None:
            return Evidence()
        posteriors = {node: assessment.posteriors[node] for node in nodes if node in assessment.posteriors}
        if not posteriors:
            return Evidence()
        return Evidence(
            {
                "reward_ratio": {node: each.expected_ratio for node, each in posteriors.items()},
                "reward_lower_ratio": {node: each.lower_ratio for node, each in posteriors.items()},
                "reward_blame_ratio": {node: each.blame_ratio for node, each in posteriors.items()},
                "reward_samples": {node: each.samples for node, each in posteriors.items()},
            }
        )


def assess_type(pod_type: str, inputs: DecisionInputs) -> TypeAssessment | None:
    """The assessment of the type's rewards; None when no node reports any."""
    rewards = inputs.snapshot.rewards.get(pod_type)
    if rewards is None:
        return None
    rule, step = inputs.policy.scores.rewards.rule, inputs.now // FADE_STEP_SECONDS
    return inputs.cache.per_object(
        rewards, (NAME, rule, step), lambda: _assess_type(rewards, rule, step * FADE_STEP_SECONDS)
    )


def _assess_type(rewards: Mapping[str, AgedReward], rule: RewardRule, now: float) -> TypeAssessment:
    faded = {node: faded_trials(each, now) for node, each in rewards.items()}
    posteriors = NodePosteriors(faded)
    if rule is RewardRule.KUBERL:
        values = {node: kuberl.score(each.reward.kuberl) / 10 for node, each in rewards.items()}
        return TypeAssessment(posteriors, {node: value for node, value in values.items() if value < 1.0}, ())
    slow = quality_factors({node: each.reward.qualities for node, each in rewards.items() if each.reward.qualities})
    failed = {node for node, each in faded.items() if each.failed >= _NO_DOUBT_TRIALS}
    values = {node: posteriors[node].value * slow.get(node, 1.0) for node in failed | slow.keys()}
    doubted = {node: min(MAX_DOUBTED_VALUE, value * value) for node, value in values.items() if value < NO_DOUBT_VALUE}
    returning = [node for node, each in faded.items() if node not in doubted and _is_returning(each)]
    return TypeAssessment(posteriors, doubted, returning)


def faded_trials(aged: AgedReward, now: float) -> Trials:
    """The node's trials, faded to `now`."""
    reward = aged.reward
    left = reward_updates.remaining_share(aged.age_seconds(now), reward.half_life_seconds)
    recent = min(reward.recent, reward_updates.MAX_RECENT_TRIALS)
    return Trials(reward.healthy * left, recent * left, reward.failed * left)


def _is_returning(trials: Trials) -> bool:
    return trials.recent < _PROVED_TRIALS and trials.failed > _FORGOTTEN_TRIALS


def _draw(pod: PodInfo, node: str) -> float:
    """A number 0..1, always the same for this pod and node."""
    seed = f"{pod.uid or pod.namespace + '/' + pod.name} {node}"
    return int.from_bytes(blake2b(seed.encode(), digest_size=8).digest()) / 2**64


def _outage_reason(nodes: Sequence[str], inputs: DecisionInputs) -> str:
    """Why rewards do not count now: too few agents report, so etcd may be away; "" when enough do."""
    fresh = cached_while_fresh(NAME, lambda: frozenset(fresh_nodes(inputs)), inputs)
    reporting = sum(map(fresh.__contains__, nodes))
    if 2 * reporting >= len(nodes):
        return ""
    return f"{NAME}: only {reporting} of {len(nodes)} nodes report; scores are not used until at least half do"
