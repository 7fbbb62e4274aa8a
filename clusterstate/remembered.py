"""Rewards as a reader keeps them: by type of pod, each with the moment from which it fades.

A reward fades while nothing is written, and the writer's clock is not the reader's. So each carries the reader's own
monotonic time at which it was first seen as it is. A reader that starts anew counts from its start.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from clusterstate.records import Reward


class Remembered(Struct, frozen=True):
    """seen_at: the reader's monotonic seconds; None: unknown, and taken for now."""

    reward: Reward
    seen_at: float | None = None

    def age_seconds(self, now: float) -> float:
        return 0.0 if self.seen_at is None else max(0.0, now - self.seen_at)


Rewards = Mapping[str, Mapping[str, Remembered]]
"""Type of pod → node → its reward."""


def updated(before: Rewards, changes: Mapping[str, Mapping[str, Reward | None]], seen_at: float | None) -> Rewards:
    """The rewards after `changes`: type → node → what it is now, None when it is gone. Types without change stay the
    same object."""
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


def relisted(before: Rewards, after: Rewards) -> Rewards:
    """`after`, in which what `before` knows already keeps its age."""
    return MappingProxyType({pod_type: _aged(before.get(pod_type, {}), nodes) for pod_type, nodes in after.items()})


def _merged(
    before: Mapping[str, Remembered], changes: Mapping[str, Reward | None], seen_at: float | None
) -> dict[str, Remembered]:
    nodes = dict(before)
    for node, reward in changes.items():
        if reward is None:
            nodes.pop(node, None)
        elif node not in nodes or nodes[node].reward != reward:
            nodes[node] = Remembered(reward, seen_at)
    return nodes


def _aged(before: Mapping[str, Remembered], after: Mapping[str, Remembered]) -> Mapping[str, Remembered]:
    kept = {node: before[node] for node in after.keys() & before.keys() if before[node].reward == after[node].reward}
    return MappingProxyType({node: kept.get(node, found) for node, found in after.items()})
