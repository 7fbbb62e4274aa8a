"""Rewards as gauges, of a bounded number of types: those with most failures. The others are counted."""

from collections.abc import Iterator, Mapping
from heapq import nlargest

from prometheus_client.core import GaugeMetricFamily, Metric

from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.rewards import rewards_score
from leadsman.state.reward_view import AgedReward

MAX_LABELLED_TYPES = 10
"""With series, 4 each."""


def reward_metrics(facts: DecisionInputs) -> Iterator[Metric]:
    names = facts.snapshot.rewards
    shown = nlargest(MAX_LABELLED_TYPES, names, key=lambda name: (_failed(names[name], facts), name))
    hidden = len(names) - len(shown)
    yield GaugeMetricFamily("leadsman_reward_types", "Types of pods that rewards are known of.", len(names))
    yield GaugeMetricFamily("leadsman_reward_types_hidden", "Types that have no gauges of their own.", hidden)
    yield from _gauges(shown, facts)


def _failed(by_node: Mapping[str, AgedReward], facts: DecisionInputs) -> float:
    """As written, not faded: it only chooses."""
    return facts.cache.per_object(by_node, "failed", lambda: sum(each.reward.failed for each in by_node.values()))


def _gauges(names: list[str], facts: DecisionInputs) -> Iterator[Metric]:
    nodes = GaugeMetricFamily("leadsman_reward_nodes", "Nodes with evidence on the type.", labels=["type"])
    doubted = GaugeMetricFamily(
        "leadsman_reward_nodes_doubted", "Of these, nodes scored below others.", labels=["type"]
    )
    lowest = GaugeMetricFamily(
        "leadsman_reward_lowest_value", "The worst node's, 1 is as good as any.", labels=["type"]
    )
    failed = GaugeMetricFamily(
        "leadsman_reward_failures", "Incidents on all nodes, faded to the last report.", labels=["type"]
    )
    for name in names:
        known = rewards_score.assess_type(name, facts)
        assert known
        nodes.add_metric([name], len(known.posteriors))
        doubted.add_metric([name], len(known.values))
        lowest.add_metric([name], min(known.values.values(), default=1.0))
        failed.add_metric([name], _failed(facts.snapshot.rewards[name], facts))
    yield from (nodes, doubted, lowest, failed)
