"""/rewards: how each node has treated each type of pod, as JSON or text. ?type= and ?node= narrow it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.rewards import rewards_score
from leadsman.rewards.posterior import NodePosterior
from leadsman.runtime.text_table import align_columns, format_counts
from leadsman.state.records import Reward


class NodeRewardRow(Struct, frozen=True):
    """One node's way with one type. value: 0..1, for the score. age_seconds: since its last change.

    reward_ratio: expected success, with lower and upper bounds; blame_ratio: that the node is at fault; typical_ratio:
    success on the other nodes; healthy, failed: trials, faded. kuberl: kubeRL's reward. incidents: cause → how many.
    """

    node: str
    type: str
    value: float
    reward_ratio: float
    lower_ratio: float
    upper_ratio: float
    blame_ratio: float
    typical_ratio: float
    samples: float
    healthy: float
    failed: float
    kuberl: float
    incidents: Mapping[str, int]
    last_cause: str
    age_seconds: float


class RewardsPage(Struct, frozen=True):
    """rule: the policy's. by_type: type → worst node first; by_node: node → worst type first."""

    rule: str
    by_type: Mapping[str, Sequence[NodeRewardRow]]
    by_node: Mapping[str, Sequence[NodeRewardRow]]


def render(facts: DecisionInputs, pod_type: str, node: str, as_json: bool) -> bytes:
    """pod_type, node: ""; every one."""
    found = sorted(_reward_rows(facts, pod_type, node), key=lambda each: (each.value, each.reward_ratio))
    return msgspec.json.encode(_rewards_page(facts, found)) if as_json else _text(found, pod_type, node).encode()


def _reward_rows(facts: DecisionInputs, pod_type: str, node: str) -> Iterator[NodeRewardRow]:
    for name in [pod_type] if pod_type else sorted(facts.snapshot.rewards):
        known = rewards_score.assess_type(name, facts)
        standings = {} if known is None else known.posteriors
        for each in [node] if node in standings else [] if node else standings:
            assert known
            yield _reward_row(facts, name, each, standings[each], known.values.get(each, 1.0))


def _reward_row(
    facts: DecisionInputs, pod_type: str, node: str, standing: NodePosterior, value: float
) -> NodeRewardRow:
    remembered = facts.snapshot.rewards[pod_type][node]
    reward: Reward = remembered.reward
    trials = rewards_score.faded_trials(remembered, facts.now)
    return NodeRewardRow(
        node,
        pod_type,
        value,
        standing.expected_ratio,
        standing.lower_ratio,
        standing.upper_ratio,
        standing.blame_ratio,
        standing.typical_ratio,
        standing.samples,
        trials.healthy,
        trials.failed,
        reward.kuberl,
        reward.incidents,
        reward.last_cause,
        remembered.age_seconds(facts.now),
    )


def _rewards_page(facts: DecisionInputs, found: list[NodeRewardRow]) -> RewardsPage:
    by_type, by_node = defaultdict[str, list[NodeRewardRow]](list), defaultdict[str, list[NodeRewardRow]](list)
    for each in found:
        by_type[each.type].append(each)
        by_node[each.node].append(each)
    return RewardsPage(facts.policy.scores.rewards.rule.value, by_type, by_node)


_HEADER = ["TYPE", "NODE", "VALUE", "REWARD", "INTERVAL", "BLAME", "ELSEWHERE", "SAMPLES", "INCIDENTS"]


def _text(found: list[NodeRewardRow], pod_type: str, node: str) -> str:
    if not found:
        asked = "".join([f" of type {pod_type}"] * bool(pod_type) + [f" on node {node}"] * bool(node))
        return f"no rewards are known{asked}\n"
    rows = sorted(found, key=lambda each: each.type)
    return "\n".join(align_columns([_HEADER, *map(_cells, rows)])) + "\n"


def _cells(each: NodeRewardRow) -> list[str]:
    return [
        each.type,
        each.node,
        f"{each.value:.2f}",
        f"{each.reward_ratio:.2f}",
        f"{each.lower_ratio:.2f}..{each.upper_ratio:.2f}",
        f"{each.blame_ratio:.2f}",
        f"{each.typical_ratio:.2f}",
        f"{each.samples:.1f}",
        format_counts(each.incidents) or "-",
    ]
