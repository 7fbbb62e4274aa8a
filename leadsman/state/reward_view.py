"""Rewards as a reader keeps them: by pod type, each with the time from which it fades.

A reward fades while nothing is written, and the writer's clock is not the reader's. So each carries the reader's own
monotonic time at which its present value was first seen. A reader that restarts counts from its start.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from leadsman.state.records import Reward


class AgedReward(Struct, frozen=True):
    """A reward and when its value was first seen.

    seen_at: the reader's monotonic seconds; None: unknown, and taken as now.
    """

    reward: Reward
    seen_at: float | None = None

    def age_seconds(self, now: float) -> float:
        """Since the value was first seen."""
        return 0.0 if self.seen_at is None else max(0.0, now - self.seen_at)


RewardsByType = Mapping[str, Mapping[str, AgedReward]]
"""Pod type → node → its reward."""


def apply_reward_changes(
    before: RewardsByType, changes: Mapping[str, Mapping[str, Reward | None]], seen_at: float | None
) -> RewardsByType:
    """The rewards after `changes`: pod type → node → the new reward, None: deleted.

    The mapping of a type without a change stays the same object.
    """
    if not changes:
        return before
    after = dict(before)
    for pod_type, by_node in changes.items():
        nodes = _merged(before.get(pod_type, {}), by_node, seen_at)
        if nodes:
            after[pod_type] = MappingProxyType(nodes)
        else:
            after.pop(pod_type, None)
    return MappingProxyType(after)


def keep_reward_ages(before: RewardsByType, after: RewardsByType) -> RewardsByType:
    """`after`, in which a reward that is unchanged since `before` keeps its age."""
    kept = {pod_type: _aged(before[pod_type], nodes) for pod_type, nodes in after.items() if pod_type in before}
    return MappingProxyType({**after, **kept})


def _merged(
    before: Mapping[str, AgedReward], changes: Mapping[str, Reward | None], seen_at: float | None
) -> dict[str, AgedReward]:
    nodes = dict(before)
    for node, reward in changes.items():
        if reward is None:
            nodes.pop(node, None)
        elif node not in nodes or nodes[node].reward != reward:
            nodes[node] = AgedReward(reward, seen_at)
    return nodes


def _aged(before: Mapping[str, AgedReward], after: Mapping[str, AgedReward]) -> Mapping[str, AgedReward]:
    same = {node: before[node] for node in after.keys() & before.keys() if before[node].reward == after[node].reward}
    return MappingProxyType({node: same.get(node, aged) for node, aged in after.items()})
