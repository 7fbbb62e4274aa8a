"""Renders the page /rewards: how pods of each type fared on each node, as JSON or text."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.rewards import rewards_score
from leadsman.decision.rewards.aged_trials import faded_trials
from leadsman.rewards.posterior import NodePosterior
from leadsman.runtime.text_table import align_columns, format_counts
from leadsman.state.records import Reward


class NodeRewardRow(Struct, frozen=True):
    """How pods of one type fared on one node.

    value: 0..1, what the score uses.
    reward_ratio: expected success, between lower_ratio and upper_ratio.
    blame_ratio: probability that the node is at fault.
    typical_ratio: success on the other nodes.
    samples: weight of the evidence.
    healthy, failed: trials, faded to now.
    kuberl: kubeRL's reward.
    incidents: cause → how many.
    age_seconds: since its last change.
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
    """All rows, twice.

    rule: the policy's reward rule.
    by_type: pod type → rows, the worst node first.
    by_node: node → rows, the worst pod type first.
    """

    rule: str
    by_type: Mapping[str, Sequence[NodeRewardRow]]
    by_node: Mapping[str, Sequence[NodeRewardRow]]


def render(inputs: DecisionInputs, pod_type: str, node: str, as_json: bool) -> bytes:
    """The page /rewards. pod_type, node: only rows of these; "" for all."""
    rows = sorted(reward_rows(inputs, pod_type, node), key=lambda row: (row.value, row.reward_ratio))
    return msgspec.json.encode(_rewards_page(inputs, rows)) if as_json else _text(rows, pod_type, node).encode()


def reward_rows(inputs: DecisionInputs, pod_type: str, node: str) -> Iterator[NodeRewardRow]:
    """All rows, or those of this pod type or node; "" for all."""
    for name in [pod_type] if pod_type else sorted(inputs.snapshot.rewards):
        assessment = rewards_score.assess_type(name, inputs)
        if assessment is None:
            continue
        nodes = inputs.snapshot.rewards.get(name, {})
        for each in [node] if node in nodes else [] if node else nodes:
            yield _reward_row(inputs, name, each, assessment.posteriors[each], assessment.values.get(each, 1.0))


def _reward_row(
    inputs: DecisionInputs, pod_type: str, node: str, posterior: NodePosterior, value: float
) -> NodeRewardRow:
    aged = inputs.snapshot.rewards[pod_type][node]
    reward: Reward = aged.reward
    trials = faded_trials(aged, inputs.now)
    return NodeRewardRow(
        node,
        pod_type,
        value,
        posterior.expected_ratio,
        posterior.lower_ratio,
        posterior.upper_ratio,
        posterior.blame_ratio,
        posterior.typical_ratio,
        posterior.samples,
        trials.healthy,
        trials.failed,
        reward.kuberl,
        reward.incidents,
        reward.last_cause,
        aged.age_seconds(inputs.now),
    )


def _rewards_page(inputs: DecisionInputs, rows: list[NodeRewardRow]) -> RewardsPage:
    by_type, by_node = defaultdict[str, list[NodeRewardRow]](list), defaultdict[str, list[NodeRewardRow]](list)
    for row in rows:
        by_type[row.type].append(row)
        by_node[row.node].append(row)
    return RewardsPage(inputs.policy.scores.rewards.rule.value, by_type, by_node)


_HEADER = ["TYPE", "NODE", "VALUE", "REWARD", "INTERVAL", "BLAME", "ELSEWHERE", "SAMPLES", "INCIDENTS"]


def _text(rows: list[NodeRewardRow], pod_type: str, node: str) -> str:
    if not rows:
        selection = "".join([f" of type {pod_type}"] * bool(pod_type) + [f" on node {node}"] * bool(node))
        return f"no node reports rewards{selection}\n"
    by_type = sorted(rows, key=lambda row: row.type)
    return "\n".join(align_columns([_HEADER, *map(_cells, by_type)])) + "\n"


def _cells(row: NodeRewardRow) -> list[str]:
    return [
        row.type,
        row.node,
        f"{row.value:.2f}",
        f"{row.reward_ratio:.2f}",
        f"{row.lower_ratio:.2f}..{row.upper_ratio:.2f}",
        f"{row.blame_ratio:.2f}",
        f"{row.typical_ratio:.2f}",
        f"{row.samples:.1f}",
        format_counts(row.incidents) or "-",
    ]
