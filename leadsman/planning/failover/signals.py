"""Reads the three signals of a node's death, each true, false or unknown, with its reason and its evidence."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct

from leadsman.planning.failover.node_verdict import DetectionRules, LeaseView, Location, Signal, Truth
from leadsman.planning.failover.observations import Observation, Stance, Vote

_PAIR, _TRIO = 2, 3


def peers_signal(votes: Sequence[Vote], nodes: int, locations: Collection[Location], rules: DetectionRules) -> Signal:
    """Tells whether the peers that are assigned to probe the node have lost it.

    nodes: in the cluster, this one included.
    locations: of all other nodes whose agents report; whether its probers could be of two racks or zones.
    """
    lost = [vote for vote in votes if vote.stance is Stance.LOST]
    evidence = tuple(str(vote) for vote in sorted(votes, key=lambda vote: (vote.stance is Stance.LOST, vote.prober)))
    least = rules.least_probers if nodes > _TRIO else _TRIO - 1
    of_all = f"{len(lost)} of {len(votes)} peers that probe it have lost it"
    if nodes > _PAIR and len(votes) >= least and lost and len(lost) >= rules.lost_ratio * len(votes):
        if len(set(locations)) < 2 or len({vote.location for vote in lost}) > 1:
            return Signal(Truth.TRUE, of_all, evidence)
        return Signal(Truth.UNKNOWN, f"{of_all}, all in one rack or zone: its link may be what failed", evidence)
    if any(vote.stance is Stance.HEARD for vote in votes):
        return Signal(Truth.FALSE, of_all, evidence)
    if nodes <= _PAIR:
        return Signal(Truth.UNKNOWN, "in a cluster of two no peer can tell the other's fault from its own", evidence)
    if len(votes) < least:
        return Signal(Truth.UNKNOWN, f"{len(votes)} peers probe it, {least} are needed", evidence)
    return Signal(Truth.UNKNOWN, f"{of_all}, and no other says that it hears it", evidence)


def heartbeat_signal(
    observed: Observation, others: int, others_moving: int, rules: DetectionRules, now: float
) -> Signal:
    """Tells whether the node's heartbeat stands still.

    others, others_moving: other nodes whose agent was seen and did not leave, and those of them that move.
    """
    if observed.heartbeat is None:
        return Signal(Truth.UNKNOWN, "no heartbeat of its agent was ever seen")
    if observed.left:
        return Signal(Truth.UNKNOWN, "its agent was stopped in good order")
    age = f"its heartbeat moved {now - observed.moved_at:.1f} s ago"
    if not observed.stands_still(now, rules.call_timeout_seconds):
        if observed.is_provisional:
            return Signal(Truth.UNKNOWN, f"its heartbeat was first seen {now - observed.moved_at:.1f} s ago")
        return Signal(Truth.FALSE, age)
    if not others or others_moving < rules.moving_ratio * others:
        return Signal(
            Truth.UNKNOWN, f"{age}, but only {others_moving} of {others} others move: etcd or the way to it has failed"
        )
    return Signal(
        Truth.TRUE, f"{age}, longer than 2P + T = {observed.patience_seconds(rules.call_timeout_seconds):g} s"
    )


def lease_signal(
    lease: LeaseView | None,
    others: int,
    others_renewed_since: Callable[[float], int],
    rules: DetectionRules,
    now: float,
) -> Signal:
    """Tells whether the node's Lease in kube-node-lease is not renewed.

    others: other nodes that have a Lease and are neither dead, lost by peers and heartbeat, nor left.
    others_renewed_since: how many of these Leases changed since a time.
    """
    if lease is None:
        return Signal(Truth.UNKNOWN, "no Lease of the node is known")
    window = rules.lease_ratio * lease.duration_seconds
    age = f"its Lease changed {now - lease.changed_at:.1f} s ago"
    if now - lease.changed_at <= window:
        if lease.is_new:
            return Signal(Truth.UNKNOWN, f"its Lease was first seen {now - lease.changed_at:.1f} s ago, of unknown age")
        return Signal(Truth.FALSE, age)
    renewed = others_renewed_since(now - window)
    if not others or renewed < rules.renewed_ratio * others:
        return Signal(
            Truth.UNKNOWN,
            f"{age}, but only {renewed} of {others} others changed: the API server or the watch has failed",
        )
    if lease.confirmed_at is None or lease.confirmed_at <= lease.changed_at + window:
        return Signal(Truth.UNKNOWN, f"{age}, which no direct read has confirmed yet")
    return Signal(Truth.TRUE, f"{age}, confirmed by a direct read; {renewed} of {others} others changed meanwhile")


class RenewalCounts:
    """Counts how many Leases of the nodes changed since a time, once a time asked for."""

    def __init__(self, leases: Mapping[str, LeaseView], nodes: Collection[str]) -> None:
        """nodes: those whose Leases count."""
        self._changed_at = {
            node: float("-inf") if leases[node].is_new else leases[node].changed_at for node in nodes if node in leases
        }
        self._counts: dict[float, int] = {}

    def others(self, node: str) -> int:
        """Counts the Leases that say something, without this node's."""
        return len(self._changed_at) - (node in self._changed_at)

    def others_since(self, node: str, since: float) -> int:
        """Returns those of them that changed since then."""
        if since not in self._counts:
            self._counts[since] = sum(at >= since for at in self._changed_at.values())
        return self._counts[since] - (self._changed_at.get(node, float("-inf")) >= since)


# Nodes of one rack or zone that fall silent together share a switch or a line, and from outside a rack without its
# switch and a rack without power look alike. What can tell them apart is a living node on their side of the switch:
# when it has lost them too, the switch is not the cause. A rack or zone that is silent as a whole has no such witness
# and stays a partition.


class SilentNode(Struct, frozen=True):
    """A node that is silent.

    since: when it was first seen to be silent.
    """

    location: Location
    since: float


class SilentNodes:
    """All nodes that are silent now."""

    def __init__(self, nodes: Mapping[str, SilentNode], rules: DetectionRules) -> None:
        self._nodes, self._rules = nodes, rules
        self._by_domain = defaultdict[tuple[str, ...], list[str]](list)
        for name, node in nodes.items():
            for domain in node.location.domains:
                self._by_domain[domain].append(name)

    def why_partition(self, node: str, votes: Sequence[Vote]) -> str:
        """Says why `node` counts as cut off together with others; "" when it does not. votes: on this node."""
        if node not in self._nodes:
            return ""
        for domain in self._nodes[node].location.domains:
            group = self._silent_with(node, domain)
            if len(group) > 1 and not self._outside_agrees(domain, group, votes):
                shown = ", ".join(sorted(group)[:5]) + (", …" if len(group) > 5 else "")
                return (
                    f"{len(group)} nodes of {domain[0]} {domain[-1]} fell silent within "
                    f"{self._rules.partition_seconds:g} s ({shown}), and no living node of that {domain[0]} confirms "
                    "that this one is gone"
                )
        return ""

    def _silent_with(self, node: str, domain: tuple[str, ...]) -> set[str]:
        since, within = self._nodes[node].since, self._rules.partition_seconds
        return {name for name in self._by_domain[domain] if abs(self._nodes[name].since - since) <= within}

    def _outside_agrees(self, domain: tuple[str, ...], group: set[str], votes: Sequence[Vote]) -> bool:
        """Tells whether those outside the group have lost the node, one on its side too, and none on its side hears
        it."""
        outside = [vote for vote in votes if vote.prober not in group]
        lost = sum(vote.stance is Stance.LOST for vote in outside)
        side = {vote.stance for vote in outside if domain in vote.location.domains}
        return Stance.LOST in side and Stance.HEARD not in side and lost >= self._rules.lost_ratio * len(outside)
