"""Holds the state of all nodes at one moment, immutable, with its freshness.

Only a heartbeat that *changes* proves that a node's data are new: a lease proves a running process, a sender's wall
clock proves nothing. So each node carries the reader's own monotonic time at which its (epoch, seq) was last seen to
change. A node that was not seen to change yet is provisional. leadsman.state.snapshot_updates makes snapshots.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from itertools import compress
from operator import is_, is_not
from types import MappingProxyType

from msgspec import Struct

from leadsman.state import keys, report_timing
from leadsman.state.records import Hardware, Heartbeat, Identity, Latency, Reachability, Reward

# Rewards as a reader keeps them: by pod type, each with the time from which it fades.
#
# A reward fades while nothing is written, and the writer's clock is not the reader's. So each carries the reader's own
# monotonic time at which its present value was first seen. A reader that restarts counts from its start.


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
"""Maps pod type → node → its reward."""


def apply_reward_changes(
    before: RewardsByType, changes: Mapping[str, Mapping[str, Reward | None]], seen_at: float | None
) -> RewardsByType:
    """Returns the rewards after `changes`: pod type → node → the new reward, None: deleted.

    The mapping of a type without a change stays the same object.
    """
    if not changes:
        return before
    after = dict(before)
    for pod_type, by_node in changes.items():
        nodes = dict(before.get(pod_type, {}))
        for node, reward in by_node.items():
            if reward is None:
                nodes.pop(node, None)
            elif node not in nodes or nodes[node].reward != reward:
                nodes[node] = AgedReward(reward, seen_at)
        if nodes:
            after[pod_type] = MappingProxyType(nodes)
        else:
            after.pop(pod_type, None)
    return MappingProxyType(after)


def keep_reward_ages(before: RewardsByType, after: RewardsByType) -> RewardsByType:
    """`after`, in which a reward that is unchanged since `before` keeps its age."""
    kept = dict(after)
    for pod_type, nodes in after.items():
        known = before.get(pod_type, {})
        same = {node: old for node, new in nodes.items() if (old := known.get(node)) and old.reward == new.reward}
        if same:
            kept[pod_type] = MappingProxyType({**nodes, **same})
    return MappingProxyType(kept)


# How much a reader keeps of one node, so that what one prefix holds cannot slow down or stop the reader.
#
# The credentials of one agent are enough to fill its node's prefix. Beyond these limits a reader drops: of a listing
# what is later in key order, of changes what is new. It goes on to use what it keeps, and every other node. Each node
# that something was dropped from is named among the snapshot's problems. A record's 4 KiB bound the rest: at most 146
# peers, 680 measures, and 2 MiB of rewards a node.


class NodeLimits(Struct, frozen=True):
    """Limits of what is kept of the state, so that no writer can fill a reader's memory.

    pod_types: with a reward of one node, readable or not.
    nodes: in all. Agents' etcd roles keep each to its own prefix, so that only a writer without a role can reach it.
    """

    pod_types: int = 512
    nodes: int = 20_000


class NodeUsage(Struct, frozen=True):
    """Says how much is kept of one node. dropped: writes of rewards that were not kept, since the last listing."""

    pod_types: int = 0
    dropped: int = 0


def dropped_from_node(node: str, usage: NodeUsage, limits: NodeLimits) -> str:
    """Returns the problem of a node of which something was dropped."""
    return (
        f"{usage.dropped} or more records of node {node} are ignored: a node may have rewards of {limits.pod_types} "
        f"pod types; delete those under {keys.rewards_prefix(node)} that no agent wrote, and the pod whose token "
        "wrote them"
    )


def dropped_nodes(limits: NodeLimits) -> str:
    """Returns the problem of a store with too many nodes."""
    return (
        f"records of more than {limits.nodes} nodes: the nodes beyond are ignored; delete the prefixes of nodes that "
        "do not exist, and lock etcd (docs/etcd.md), so that each agent writes its own prefix alone"
    )


# Which nodes changed between two tables of node states, where the one was made from the other.
#
# Of 5,000 nodes some eight report between two decisions. Comparing all their states took a quarter of a decision, so
# tables that follow one another share a log of the names that changed, and only those are compared.


class LogPosition:
    """Tells where a table stands in a log. How a table came about is no part of what it says, so all positions are
    equal."""

    __slots__ = ("_end", "_log", "_table")

    def __init__(self, table: Mapping[str, object]) -> None:
        """Stands at the beginning of a log of its own."""
        self._table, self._end = table, 0
        self._log: list[str] = []

    def next(self, before: Mapping[str, object], after: Mapping[str, object], changed: Iterable[str]) -> "LogPosition":
        """Returns the position of `after`, which is `before` with these nodes changed. It is in a log of its own when
        this position is another table's, when it was continued already, and when the log has more names than nodes."""
        position = LogPosition(after)
        if self._table is before and self._end == len(self._log) <= len(before):
            self._log.extend(changed)
            position._log, position._end = self._log, len(self._log)
        return position

    def changed_since(
        self, other: "LogPosition", tables: tuple[Mapping[str, object], Mapping[str, object]]
    ) -> Collection[str] | None:
        """Returns every node that changed between the two, whichever was first, and maybe more. None: unknown, as when
        they are not the positions of these tables, that of `other` first."""
        if other._log is not self._log or other._table is not tables[0] or self._table is not tables[1]:
            return None
        begin, end = sorted((self._end, other._end))
        return dict.fromkeys(self._log[begin:end])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogPosition)

    def __hash__(self) -> int:
        return hash(LogPosition)


class Freshness(StrEnum):
    """Says whether a node's data may be used."""

    FRESH = "fresh"
    STALE = "stale"
    PROVISIONAL = "provisional"
    """Loaded, and not yet seen to change."""
    SILENT = "silent"
    """The node has no heartbeat at all."""


class NodeState(Struct, frozen=True, gc=False):
    """One node's records; None: absent or unreadable.

    changed_at: the reader's monotonic seconds at which the heartbeat was last seen to change; None: never.
    """

    identity: Identity | None = None
    heartbeat: Heartbeat | None = None
    latency: Latency | None = None
    hardware: Hardware | None = None
    changed_at: float | None = None
    reachability: Reachability | None = None

    def age_seconds(self, now: float) -> float | None:
        """Returns the seconds since the heartbeat was last seen to change; None: it never was."""
        return None if self.changed_at is None else now - self.changed_at

    def freshness(self, now: float) -> Freshness:
        """Returns the freshness at `now`, in monotonic seconds."""
        if self.heartbeat is None:
            return Freshness.SILENT
        if self.changed_at is None:
            return Freshness.PROVISIONAL
        return Freshness.FRESH if now < self.fresh_until else Freshness.STALE

    @property
    def fresh_until(self) -> float:
        """Returns the monotonic seconds until which the data are fresh; -inf while silent or provisional."""
        if self.heartbeat is None or self.changed_at is None:
            return float("-inf")
        return self.changed_at + report_timing.stale_seconds(self.heartbeat.push_interval_seconds)


class Snapshot(Struct, frozen=True):
    """Everything that the store held at one revision.

    nodes: node → its records.
    problems: key → why its value was ignored; a node's prefix → why more of it was.
    usage: node → how much is kept of it, for every node that has anything here.
    dropped: writes of records that the limits excluded, since the process began.
    revision, cluster_id: of the store.
    rewards: apart from the nodes, because they outlive them and change far less often.
    position: among the snapshots that it follows, see changed_nodes.
    """

    nodes: Mapping[str, NodeState] = MappingProxyType({})
    problems: Mapping[str, str] = MappingProxyType({})
    revision: int = 0
    cluster_id: str = ""
    rewards: RewardsByType = MappingProxyType({})
    usage: Mapping[str, NodeUsage] = MappingProxyType({})
    dropped: int = 0
    position: LogPosition = LogPosition({})

    @property
    def crowded_nodes(self) -> int:
        """Counts the nodes of which records were dropped."""
        return sum(usage.dropped > 0 for usage in self.usage.values())


def changed_nodes(before: Snapshot, after: Snapshot) -> Collection[str]:
    """Returns the nodes that came, went or have another state, each once."""
    old, new = before.nodes, after.nodes
    changed = after.position.changed_since(before.position, (old, new))
    if changed is not None:
        return [node for node in changed if old.get(node) is not new.get(node)]
    if len(old) == len(new) and all(map(is_, old, new)):  # A changed copy has its names in the same places.
        return list(compress(new, map(is_not, new.values(), old.values())))
    return [*compress(new, map(is_not, new.values(), map(old.get, new))), *(old.keys() - new.keys())]
