"""Exports rewards as gauges for the pod types with most failures; the other types are only counted."""

from collections.abc import Iterator, Mapping
from heapq import nlargest

from prometheus_client.core import GaugeMetricFamily, Metric

from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.rewards import rewards_score
from leadsman.state.snapshot import AgedReward

MAX_LABELLED_TYPES = 10
"""Each has 4 series."""


def reward_metrics(inputs: DecisionInputs) -> Iterator[Metric]:
    """Gauges of at most MAX_LABELLED_TYPES pod types, and how many types have none."""
    rewards = inputs.snapshot.rewards
    shown = nlargest(MAX_LABELLED_TYPES, rewards, key=lambda name: (_failed(rewards[name], inputs), name))
    hidden = len(rewards) - len(shown)
    yield GaugeMetricFamily("leadsman_reward_types", "Pod types that nodes report rewards of.", len(rewards))
    yield GaugeMetricFamily("leadsman_reward_types_hidden", "Pod types without gauges of their own.", hidden)
    yield from _gauges(shown, inputs)


def _failed(by_node: Mapping[str, AgedReward], inputs: DecisionInputs) -> float:
    """Failures on all nodes as last reported, not faded to now: good enough to choose which types are shown."""
    return inputs.views.lasting.once("failed", lambda: sum(each.reward.failed for each in by_node.values()), by_node)


def _gauges(names: list[str], inputs: DecisionInputs) -> Iterator[Metric]:
    nodes = GaugeMetricFamily("leadsman_reward_nodes", "Nodes that report rewards of the pod type.", labels=["type"])
    doubted = GaugeMetricFamily(
        "leadsman_reward_nodes_doubted", "Nodes that score below the others for the pod type.", labels=["type"]
    )
    lowest = GaugeMetricFamily(
        "leadsman_reward_lowest_value",
        "Value of the worst node for the pod type; 1 is as good as any.",
        labels=["type"],
    )
    failed = GaugeMetricFamily(
        "leadsman_reward_failures",
        "Incidents of the pod type on all nodes, faded to each node's last report.",
        labels=["type"],
    )
    for name in names:
        assessment = rewards_score.assess_type(name, inputs)
        assert assessment
        nodes.add_metric([name], len(inputs.snapshot.rewards[name]))
        doubted.add_metric([name], len(assessment.values))
        lowest.add_metric([name], min(assessment.values.values(), default=1.0))
        failed.add_metric([name], _failed(inputs.snapshot.rewards[name], inputs))
    yield from (nodes, doubted, lowest, failed)
