"""The state of all nodes at one moment, immutable, with its freshness.

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

from leadsman.state import report_timing
from leadsman.state.node_limits import NodeUsage
from leadsman.state.records import Hardware, Heartbeat, Identity, Latency, Reachability
from leadsman.state.reward_view import RewardsByType

# Which nodes changed between two tables of node states, where the one was made from the other.
#
# Of 5,000 nodes some eight report between two decisions. Comparing all their states took a quarter of a decision, so
# tables that follow one another share a log of the names that changed, and only those are compared.


class LogPosition:
    """Where a table stands in a log. How a table came about is no part of what it says, so all positions are equal."""

    __slots__ = ("_end", "_log", "_table")

    def __init__(self, table: Mapping[str, object]) -> None:
        """At the beginning of a log of its own."""
        self._table, self._end = table, 0
        self._log: list[str] = []

    def next(self, before: Mapping[str, object], after: Mapping[str, object], changed: Iterable[str]) -> "LogPosition":
        """The position of `after`, which is `before` with these nodes changed. It is in a log of its own when this
        position is another table's, when it was continued already, and when the log has more names than nodes."""
        position = LogPosition(after)
        if self._table is before and self._end == len(self._log) <= len(before):
            self._log.extend(changed)
            position._log, position._end = self._log, len(self._log)
        return position

    def changed_since(
        self, other: "LogPosition", tables: tuple[Mapping[str, object], Mapping[str, object]]
    ) -> Collection[str] | None:
        """Every node that changed between the two, whichever was first, and maybe more. None: unknown, as when they are
        not the positions of these tables, that of `other` first."""
        if other._log is not self._log or other._table is not tables[0] or self._table is not tables[1]:
            return None
        begin, end = sorted((self._end, other._end))
        return dict.fromkeys(self._log[begin:end])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogPosition)

    def __hash__(self) -> int:
        return hash(LogPosition)


class Freshness(StrEnum):
    """Whether a node's data may be used."""

    FRESH = "fresh"
    STALE = "stale"
    PROVISIONAL = "provisional"
    """Loaded, and not yet seen to change."""
    SILENT = "silent"
    """No heartbeat at all."""


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
        """Since the heartbeat was last seen to change; None: never."""
        return None if self.changed_at is None else now - self.changed_at

    def freshness(self, now: float) -> Freshness:
        """Freshness at `now`, in monotonic seconds."""
        if self.heartbeat is None:
            return Freshness.SILENT
        if self.changed_at is None:
            return Freshness.PROVISIONAL
        return Freshness.FRESH if now < self.fresh_until else Freshness.STALE

    @property
    def fresh_until(self) -> float:
        """Monotonic seconds until which the data are fresh; -inf while silent or provisional."""
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
        """Nodes of which records were dropped."""
        return sum(usage.dropped > 0 for usage in self.usage.values())


def changed_nodes(before: Snapshot, after: Snapshot) -> Collection[str]:
    """The nodes that came, went or have another state, each once."""
    old, new = before.nodes, after.nodes
    changed = after.position.changed_since(before.position, (old, new))
    if changed is not None:
        return [node for node in changed if old.get(node) is not new.get(node)]
    if len(old) == len(new) and all(map(is_, old, new)):  # A changed copy has its names in the same places.
        return list(compress(new, map(is_not, new.values(), old.values())))
    return [*compress(new, map(is_not, new.values(), map(old.get, new))), *(old.keys() - new.keys())]
