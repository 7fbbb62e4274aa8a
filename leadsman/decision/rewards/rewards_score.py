"""Scores nodes by how pods of the type fared on them: avoids bad nodes, and returns when that has faded.

Failures of other types on the node, and on other nodes of its rack, raise the doubt (`leadsman.rewards.shared_faults`).

A node's value is 1 unless there is doubt about it. Then it is the square of its value, at most MAX_DOUBTED_VALUE, so
that it never ties with a node without doubt and two doubts seldom round to one score. A node whose doubt has faded, but
which has no success since, looks good only to a few pods, chosen by their UID, until one of them did well there: that
bounds exploration. A node without evidence has the prior, as good as any.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import exp, log
from statistics import median
from types import MappingProxyType

import numpy as np
from msgspec import Struct

from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo, Refusal, draw, pod_type_of
from leadsman.decision.policy import BreakerPolicy, RewardRule
from leadsman.decision.view import Column
from leadsman.rewards import kuberl, reward_updates
from leadsman.rewards.posterior import (
    DEFAULT_TYPICAL_RATIO,
    MIN_VOTING_TRIALS,
    SOUND_RATIO,
    NodePosterior,
    NodePosteriors,
    Trials,
)
from leadsman.rewards.shared_faults import Accusation, AccusationsByType, SharedDoubt, accuse, shared_doubts
from leadsman.state.records import Quality, Reward
from leadsman.state.snapshot import AgedReward, NodeState

NAME = "rewards"

NO_DOUBT_VALUE = 0.98
MAX_DOUBTED_VALUE = 0.94
"""Rounds to 9 of 10."""

FADE_STEP_SECONDS = 10.0
"""Evidence fades in steps of this, so that it is computed once for all pods in between."""

MIN_SOUND_NODES = 2
"""A type accuses a node when it ran well on at least so many others, and on more than it failed on."""

EXPLORE_FAIR_SHARES, MAX_EXPLORE_RATIO = 1.0, 0.3
"""Share of the pods to which a returning node looks good. An empty node takes every one of these."""

_NO_REWARDS: Mapping[str, AgedReward] = MappingProxyType({})
_PROVED_TRIALS = 0.5
_FORGOTTEN_TRIALS = 0.02
_NO_DOUBT_TRIALS = 0.01
"""Failed trials below which the value is 1."""


class TypeAssessment(Struct, frozen=True):
    """Holds what the rewards of one pod type say about the nodes.

    posteriors: also of nodes without trials that others' failures put in doubt.
    values: node → 0..1, without those at 1.
    returning: nodes that look good to some pods only.
    doubts: what failures of other types, and on other nodes of the rack, say of a node.
    """

    posteriors: Mapping[str, NodePosterior]
    values: Mapping[str, float]
    returning: Sequence[str] = ()
    doubts: Mapping[str, SharedDoubt] = MappingProxyType({})


class RewardsScore:
    """Scores nodes by the pod type's rewards, under policy.scores.rewards."""

    name = NAME

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        weight, assessment = inputs.policy.scores.rewards.weight, assess_type(pod_type_of(pod), inputs)
        if not weight or assessment is None:
            return None
        explored = min(MAX_EXPLORE_RATIO, EXPLORE_FAIR_SHARES / len(nodes)) if nodes else 0.0
        hidden = {node: MAX_DOUBTED_VALUE for node in assessment.returning if draw(pod, node) >= explored}
        values = {**assessment.values, **hidden}
        return PluginScore(
            NAME,
            weight,
            Column(nodes, [values.get(node, 1.0) for node in nodes]),
            neutral=_outage_reason(nodes, inputs),
        )

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Returns how the type's pods fared on each node; nodes without evidence are absent."""
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
                "reward_shared_fault_ratio": {
                    node: assessment.doubts[node].fault_ratio for node in nodes if node in assessment.doubts
                },
            }
        )


def assess_type(pod_type: str, inputs: DecisionInputs) -> TypeAssessment | None:
    """Assesses the nodes for the type; None when no node reports rewards of it and no other type's failures warn it."""
    rewards = inputs.snapshot.rewards.get(pod_type, _NO_REWARDS)
    rule, step = inputs.policy.scores.rewards.rule, inputs.now // FADE_STEP_SECONDS
    accusations = _accusations(inputs, step) if rule is RewardRule.COMPARED else {}
    racks = _accused_racks(accusations, inputs)
    if not rewards and not accusations:
        return None
    return inputs.views.lasting.once(
        (NAME, rule, step, pod_type, racks),
        lambda: _assess_type(rewards, shared_doubts(pod_type, accusations, racks), rule, step * FADE_STEP_SECONDS),
        inputs.snapshot.rewards,
    )


def _assess_type(
    rewards: Mapping[str, AgedReward], doubts: Mapping[str, SharedDoubt], rule: RewardRule, now: float
) -> TypeAssessment:
    if rule is RewardRule.KUBERL:
        trials = {node: faded_trials(each, now) for node, each in rewards.items()}
        values = {node: kuberl.score(each.reward.kuberl) / 10 for node, each in rewards.items()}
        return TypeAssessment(NodePosteriors(trials), {node: value for node, value in values.items() if value < 1.0})
    waits = retry_half_lives([each.reward for each in rewards.values()])
    trials = {
        node: faded_trials(each, now) if node in doubts else trials_until_retry(each, now, waits)
        for node, each in rewards.items()
    }
    for node, doubt in doubts.items():
        trials[node] = trials_since(doubt, rewards.get(node), trials.get(node, Trials()), now)
    posteriors = NodePosteriors(trials, {node: doubt.sound_ratio for node, doubt in doubts.items()})
    slow = quality_factors(
        {node: faded_qualities(each, now) for node, each in rewards.items() if each.reward.qualities}
    )
    failed = {node for node, each in trials.items() if each.failed >= _NO_DOUBT_TRIALS}
    values = {node: posteriors[node].value * slow.get(node, 1.0) for node in failed | slow.keys() | doubts.keys()}
    doubted = {node: min(MAX_DOUBTED_VALUE, value * value) for node, value in values.items() if value < NO_DOUBT_VALUE}
    faded = [node for node, each in trials.items() if each.failed > _FORGOTTEN_TRIALS or node in doubts]
    returning = [node for node in faded if node not in doubted and trials[node].recent < _PROVED_TRIALS]
    return TypeAssessment(posteriors, doubted, returning, doubts)


def _accusations(inputs: DecisionInputs, step: float) -> AccusationsByType:
    """Returns the accusations by all types that failed on a node lately."""
    rewards, now = inputs.snapshot.rewards, step * FADE_STEP_SECONDS
    once = inputs.views.lasting.once

    def of_type(nodes: Mapping[str, AgedReward]) -> Mapping[str, Accusation]:
        failed = once(
            (NAME, "failed"), lambda: [n for n, each in nodes.items() if each.reward.failed > _FORGOTTEN_TRIALS], nodes
        )
        if not failed:
            return {}
        return once((NAME, "accusations", step), lambda: _type_accusations(nodes, failed, now), nodes)

    return once(
        (NAME, "accusations", step),
        lambda: {name: found for name, nodes in rewards.items() if (found := of_type(nodes))},
        rewards,
    )


def _type_accusations(rewards: Mapping[str, AgedReward], failed: Sequence[str], now: float) -> Mapping[str, Accusation]:
    """Returns the accusations by one type. What fails elsewhere too, or has hardly run elsewhere, accuses no node.

    failed: the nodes where it failed, however long ago. That it ran well elsewhere counts however long ago, too: with
        fewer voters fewer nodes are warned of, and more pods fail (benchmarks.rewards).
    """
    failing = [n for n in failed if rewards[n].reward.failed * _left(rewards[n], now) > _FORGOTTEN_TRIALS]
    if not failing:
        return {}
    voters = sum(each.reward.healthy > MIN_VOTING_TRIALS for each in rewards.values())
    sound = voters - sum(rewards[node].reward.healthy > MIN_VOTING_TRIALS for node in failing)
    if sound < MIN_SOUND_NODES or sound <= len(failing):
        return {}
    accusations: dict[str, Accusation] = {}
    for node in failing:
        age_seconds = incident_age_seconds(rewards[node], now)
        accusation = accuse(faded_trials(rewards[node], now), DEFAULT_TYPICAL_RATIO, age_seconds or 0.0)
        if accusation:
            accusations[node] = accusation
    return accusations


def _accused_racks(accusations: AccusationsByType, inputs: DecisionInputs) -> tuple[tuple[str, ...], ...]:
    """Returns the nodes of each rack in which at least two are accused."""
    states = inputs.snapshot.nodes
    accused = {node for nodes in accusations.values() for node in nodes}
    counts = Counter(rack for node in accused if node in states and (rack := _rack(states[node])))
    suspect = {rack for rack, count in counts.items() if count >= 2}
    if not suspect:
        return ()
    view = inputs.view()
    racks = view.column(f"{NAME} rack", lambda states: list(map(_rack, states)), None).tolist()
    members: dict[object, list[str]] = {rack: [] for rack in sorted(suspect)}
    for node, rack in zip(view.index.nodes, racks, strict=False):
        if rack in members:
            members[rack].append(node)
    return tuple(tuple(sorted(nodes)) for nodes in members.values())


def _rack(state: NodeState) -> str | None:
    identity = state.identity
    return f"{identity.zone}\0{identity.rack}" if identity and identity.rack else None


def _outage_reason(nodes: Sequence[str], inputs: DecisionInputs) -> str:
    """Says why rewards do not count now: too few agents report, so etcd may be away; "" when enough do."""
    view = inputs.view()
    reporting = int(np.count_nonzero(view.fresh[view.index.positions(nodes)]))
    if 2 * reporting >= len(nodes):
        return ""
    return f"{NAME}: only {reporting} of {len(nodes)} nodes report; scores are not used until at least half do"


# Circuit breaker: refuses nodes on which pods of the type keep failing, until the last failure is some time ago.
#
# Off by default. It never leaves a pod without a node: if it would refuse all candidates, it refuses none.

BREAKER = "breaker"


class BreakerFilter:
    """Refuses nodes on which the pod's type keeps failing, under policy.breaker."""

    name = BREAKER

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        settings, pod_type = inputs.policy.breaker, pod_type_of(pod)
        assessment = assess_type(pod_type, inputs) if settings.failures else None
        if assessment is None:
            return {}
        rewards = inputs.snapshot.rewards.get(pod_type, _NO_REWARDS)
        failing = [n for n in nodes if n in rewards and _is_failing(rewards[n], settings, inputs.now)]
        open_nodes = [n for n in failing if assessment.posteriors[n].blame_ratio >= settings.blame_ratio]
        if not open_nodes or len(open_nodes) == len(nodes):
            return {}
        return dict.fromkeys(open_nodes, Refusal(BREAKER, f"pods of type {pod_type} keep failing on the node"))

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Returns nothing: the rewards score has the evidence."""
        return Evidence()


def _is_failing(aged: AgedReward, settings: BreakerPolicy, now: float) -> bool:
    """Tells whether there were enough failures and the last one is recent."""
    age_seconds = incident_age_seconds(aged, now)
    recent = age_seconds is not None and age_seconds < settings.hold_seconds
    return recent and faded_trials(aged, now).failed >= settings.failures


# Ages a node's record, which says only what was so when it was written: fading alone is not written.

RETRY_HALF_LIVES = (0.5, 2.0, 4.25)
"""A node is tried again so many half-lives after its last failure, by how many failures there were in a row; a first
one without health counts two. Sooner costs failures on nodes that stay broken; later leaves repaired ones empty, and
those that failed once by chance."""

_WHERE_FEW_ARE_BAD = (0.5, 1.0, 4.25)
"""A failure without health before it may well be chance."""

_WHERE_NODES_DIFFER = (2.0, 4.25, 4.25)
"""One failure says more of its node where nodes differ in how often they fail."""

MAX_EARLY_RATIO = 0.36
"""With more of the failures early, the nodes differ. Where all fail one pod in fifty, a quarter is."""

_PRIOR_EARLY, _PRIOR_LATE = 3.0, 6.0
"""Are added to the failures, so that few decide nothing."""

_RETRIED_TRIALS = 0.03
"""Says what is left of the failures then: no doubt, but few pods see the node until one did well."""


def faded_trials(aged: AgedReward, now: float) -> Trials:
    """Returns the node's trials as they have faded by `now`."""
    reward, left = aged.reward, _left(aged, now)
    recent = min(reward.recent, reward_updates.MAX_RECENT_TRIALS)
    return Trials(reward.healthy * left, recent * left, reward.failed * left)


def faded_qualities(aged: AgedReward, now: float) -> dict[str, Quality]:
    """Returns the node's qualities with the samples that are left of them by `now`."""
    left = _left(aged, now)
    return {name: Quality(each.log_cost, each.samples * left) for name, each in aged.reward.qualities.items()}


def _left(aged: AgedReward, now: float) -> float:
    return reward_updates.remaining_share(aged.age_seconds(now), aged.reward.half_life_seconds)


def retry_half_lives(rewards: Collection[Reward]) -> Sequence[float]:
    """Returns after how many half-lives a node is tried again, by its failures in a row; rewards: of all nodes.

    Nodes differ if many failures came early, without those of the node with most. Few are bad if no more others than
    the prior expects are known to be.
    """
    early = _PRIOR_EARLY + sum(each.early for each in rewards) - max((each.early for each in rewards), default=0.0)
    late = _PRIOR_LATE + sum(each.late for each in rewards)
    if early > MAX_EARLY_RATIO * (early + late):
        return _WHERE_NODES_DIFFER
    bad = sum(each.setbacks > 1 and each.recent < reward_updates.PROOF_TRIALS for each in rewards)
    return _WHERE_FEW_ARE_BAD if bad - 1 <= (1.0 - SOUND_RATIO) * len(rewards) else RETRY_HALF_LIVES


def trials_until_retry(aged: AgedReward, now: float, half_lives: Sequence[float] = RETRY_HALF_LIVES) -> Trials:
    """Returns trials that do not fade until the node is tried again, when nearly nothing is left of the failures.

    If each failure faded by itself, a node that failed once after hours of health would be avoided for as long as one
    on which nothing ever ran well.
    """
    trials, age_seconds = faded_trials(aged, now), incident_age_seconds(aged, now)
    if age_seconds is None or not aged.reward.setbacks:
        return trials
    half_life_seconds = aged.reward.half_life_seconds
    if age_seconds >= half_lives[aged.reward.setbacks - 1] * half_life_seconds:
        return trials._replace(failed=min(trials.failed, _RETRIED_TRIALS))
    left = reward_updates.remaining_share(age_seconds, half_life_seconds)
    return trials._replace(recent=trials.recent / left, failed=trials.failed / left)


def trials_since(doubt: SharedDoubt, aged: AgedReward | None, trials: Trials, now: float) -> Trials:
    """Drops successes from before the failures that put the node in doubt, as the question is whether it changed then.
    How many these are is not recorded: at a steady rate, it is what fades until now."""
    if aged is None:
        return trials
    own_age = incident_age_seconds(aged, now)
    if own_age is not None and own_age <= doubt.age_seconds:
        return trials
    before = reward_updates.remaining_share(doubt.age_seconds, aged.reward.half_life_seconds)
    return trials._replace(recent=trials.recent * (1.0 - before))


def incident_age_seconds(aged: AgedReward, now: float) -> float | None:
    """Returns the age of the node's last incident of the type, on the reader's clock; None: there was none."""
    reward = aged.reward
    if reward.last_incident_seconds is None:
        return None
    return max(0.0, reward.at_seconds - reward.last_incident_seconds) + aged.age_seconds(now)


# Compares how slow, or otherwise costly, pods of a type run on each node with the other nodes.
#
# A node is compared with the median of the other nodes' geometric means, so that no single node, slow or lying, moves
# what is usual. Twice the usual cost halves the value, once there are enough observations: n of them count n / (n + 2).
# An excess below MIN_EXCESS_RATIO is chance: at run times that differ by 20 %, up to 3 standard deviations of the mean.

MIN_SAMPLES = 0.5
MIN_OTHER_NODES = 2
"""A node's quality is compared with at least so many others: with one it is unknown whether that one is fast or this
one slow."""

MIN_EXCESS_RATIO = 1.25
"""Run times of equal nodes differ by some 20 % from pod to pod. Without this, half of the sound nodes are in doubt."""

Qualities = Mapping[str, Quality]


def quality_factors(nodes: Mapping[str, Qualities]) -> dict[str, float]:
    """Maps each node to usual cost / its own, at most 1, the product over all qualities. Nodes at 1 are absent."""
    factors: dict[str, float] = {}
    for name in {name for qualities in nodes.values() for name in qualities}:
        costs = {node: each[name] for node, each in nodes.items() if name in each}
        for node, factor in _factors({node: c for node, c in costs.items() if c.samples >= MIN_SAMPLES}).items():
            factors[node] = factors.get(node, 1.0) * factor
    return factors


def _factors(costs: Mapping[str, Quality]) -> dict[str, float]:
    if len(costs) <= MIN_OTHER_NODES:
        return {}
    ranked = sorted(each.log_cost for each in costs.values())
    excess = {node: each.log_cost - _others_median(ranked, each.log_cost) for node, each in costs.items()}
    confidence = {node: each.samples / (each.samples + 2.0) for node, each in costs.items()}
    weighed = {node: more * confidence[node] for node, more in excess.items()}
    return {node: exp(-more) for node, more in weighed.items() if more > log(MIN_EXCESS_RATIO)}


def _others_median(ranked: list[float], own: float) -> float:
    """Returns the median without the node's own cost."""
    middle = len(ranked) // 2
    if len(ranked) % 2:
        around = ranked[middle - 1 : middle + 2]
        around.remove(own if own in around else ranked[middle - 1] if own < around[0] else ranked[middle + 1])
        return median(around)
    return ranked[middle] if own <= ranked[middle - 1] else ranked[middle - 1]
