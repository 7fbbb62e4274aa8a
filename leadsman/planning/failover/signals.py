"""Reads the three signals of a node's death, each true, false or unknown, with its reason and its evidence, from what
was seen of the nodes and what each prober says.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, structs

from leadsman.cluster.model import Location
from leadsman.planning.failover.node_verdict import DetectionRules, LeaseView, Signal, Truth
from leadsman.state.records import LOSSES_OF_A_SILENT_PEER, Heartbeat, Reachability
from leadsman.state.report_timing import stale_seconds
from leadsman.state.snapshot import Freshness, NodeState

# What was seen of each node is remembered: records vanish from etcd with their lease just when they are needed.


class Observation(Struct, frozen=True):
    """Says what was seen of one node, as of now.

    heartbeat: the last one seen, also when it is gone.
    moved_at: when it was last seen to change, or first seen.
    moving_since: since when it has never stood still for too long.
    is_provisional: it was only seen once, and may be of any age.
    present: it is in etcd now.
    left: the agent deleted its records itself, as it does when it is stopped in good order.
    report: which peers answer this node, by its last report; None: it has not reported for long, or never.
    written_at: when that report was first seen.
    reported_at: when it was last vouched for.
    is_current: it is vouched for now.
    """

    location: Location = Location()
    heartbeat: Heartbeat | None = None
    moved_at: float = float("-inf")
    moving_since: float = float("inf")
    is_provisional: bool = True
    present: bool = False
    left: bool = False
    report: Reachability | None = None
    written_at: float = float("-inf")
    reported_at: float = float("-inf")
    is_current: bool = False

    def stands_still(self, now: float, call_timeout_seconds: float) -> bool:
        """Tells whether the heartbeat has not changed for longer than two push intervals and a call."""
        return self.heartbeat is not None and now - self.moved_at > self.patience_seconds(call_timeout_seconds)

    def counts(self, now: float) -> bool:
        """Tells whether readers of the state still trust the last report."""
        return now - self.moved_at < stale_seconds(self._interval_seconds)

    def moves(self, now: float, call_timeout_seconds: float) -> bool:
        """Tells whether the heartbeat has moved for longer than one may stand still, so that it tells whether etcd
        works.

        When etcd comes back the agents report again one after the other, and none stands still because it is not the
        first.
        """
        has_moved_seconds = now - self.moving_since
        is_still = self.stands_still(now, call_timeout_seconds)
        return not is_still and has_moved_seconds > self.patience_seconds(call_timeout_seconds)

    def patience_seconds(self, call_timeout_seconds: float) -> float:
        """Returns 2P + T: by then a report and its repetition have failed."""
        return 2 * self._interval_seconds + call_timeout_seconds

    @property
    def _interval_seconds(self) -> float:
        return self.heartbeat.push_interval_seconds if self.heartbeat else 0.0


_NOT_SEEN = Observation()
_NO_RECORDS = NodeState()


def observe(
    before: Observation | None, state: NodeState | None, labels: Location, rules: DetectionRules, now: float
) -> Observation:
    """Returns the observation that follows from `before` and the node's records in etcd.

    labels: where the node is by its labels.
    """
    before, state = before or _NOT_SEEN, state or _NO_RECORDS
    after = structs.replace(
        before,
        location=_location(before, state, labels),
        heartbeat=state.heartbeat or before.heartbeat,
        moved_at=_moved_at(before, state, now),
        moving_since=_moving_since(before, state, rules, now),
        is_provisional=before.is_provisional and not _has_moved(before, state),
        present=state.heartbeat is not None,
        left=_left(before, state, now),
        is_current=state.reachability is not None and state.freshness(now) is Freshness.FRESH,
    )
    if after.is_current:
        written_at = before.written_at if before.report == state.reachability else now
        return structs.replace(after, report=state.reachability, written_at=written_at, reported_at=now)
    if now - before.reported_at > rules.assignment_seconds:
        return structs.replace(after, report=None)
    return after


def _location(before: Observation, state: NodeState, labels: Location) -> Location:
    known = labels.completed(state.identity.zone, state.identity.rack) if state.identity else labels
    return known.completed(before.location.zone, before.location.rack)


def _moved_at(before: Observation, state: NodeState, now: float) -> float:
    if state.heartbeat is None:
        return before.moved_at
    if before.heartbeat is not None and not _has_moved(before, state):
        return before.moved_at
    return now if state.changed_at is None else state.changed_at


def _moving_since(before: Observation, state: NodeState, rules: DetectionRules, now: float) -> float:
    if not _has_moved(before, state):
        return before.moving_since
    is_new = before.is_provisional or before.stands_still(now, rules.call_timeout_seconds)
    return now if is_new else before.moving_since


def _has_moved(before: Observation, state: NodeState) -> bool:
    """Tells whether the heartbeat was seen to change, here or by the follower of the state."""
    old, new = before.heartbeat, state.heartbeat
    if new is None or old is None:
        return state.changed_at is not None
    return (old.epoch, old.seq) != (new.epoch, new.seq)


def _left(before: Observation, state: NodeState, now: float) -> bool:
    """Records that vanish while their heartbeat is young were deleted by the agent; a lease takes longer to expire.

    A heartbeat that was only seen once may be old: a leader that begins to look after a node's death sees its records
    shortly before they expire.
    """
    if state.heartbeat is not None:
        return False
    if not before.present or before.heartbeat is None:
        return before.left
    return not before.is_provisional and now - before.moved_at < stale_seconds(before.heartbeat.push_interval_seconds)


# What each prober of a node says about it: lost, heard, or nothing that counts.


class Stance(StrEnum):
    """Says what a prober thinks of a node. Only LOST speaks for its death; NO_EVIDENCE counts as if the prober heard
    it."""

    LOST = "lost"
    HEARD = "heard"
    NO_EVIDENCE = "no evidence"


class Vote(Struct, frozen=True):
    """One prober's word on the node that it probes. lost_since: of a LOST, when the first of its lost probes was
    sent."""

    prober: str
    location: Location
    stance: Stance
    reason: str
    lost_since: float = 0.0

    def __str__(self) -> str:
        zone = f" (zone {self.location.zone})" if self.location.zone else ""
        return f"{self.prober}{zone} {self.reason}"


def vote(prober: str, seen: Observation, node: str, observed: Observation, rules: DetectionRules) -> Vote:
    """Returns what `prober` says about `node`, which it is assigned to probe."""
    report = seen.report
    assert report is not None, f"{prober} is not assigned to probe {node}"
    if not seen.is_current:
        return Vote(prober, seen.location, Stance.NO_EVIDENCE, "reports no more")
    losses = report.losses[node]
    if losses < LOSSES_OF_A_SILENT_PEER:
        return Vote(prober, seen.location, Stance.HEARD, "hears it")
    reason = _why_no_evidence(seen, observed, report, rules)
    if reason:
        return Vote(prober, seen.location, Stance.NO_EVIDENCE, reason)
    silence = report.silences.get(node)
    age = silence.first_loss_age_seconds if silence else 0.0
    return Vote(prober, seen.location, Stance.LOST, f"lost {losses} probes running", seen.written_at - age)


def _why_no_evidence(seen: Observation, observed: Observation, report: Reachability, rules: DetectionRules) -> str:
    """Says why the losses are no evidence; "" when they are. The node is one of those probed, and does not answer."""
    if report.local_fault:
        return f"lost it, but has a fault of its own: {report.local_fault}"
    if seen.moved_at <= observed.moved_at:
        return "lost it, by a report from before the node's last heartbeat"
    others = report.probed - 1
    if others < 1 or report.answering < rules.heard_ratio * others:
        return f"lost it, but hears only {report.answering} of its {max(others, 0)} other peers"
    return ""


def assigned_probers(observations: Mapping[str, Observation], nodes: Iterable[str]) -> dict[str, list[str]]:
    """Maps each node to those whose own reports say that they probe it. One pass over all reports."""
    probers: dict[str, list[str]] = {node: [] for node in nodes}
    for name, seen in observations.items():
        if seen.report is not None:
            for node in seen.report.losses.keys() & probers.keys():
                if node != name:
                    probers[node].append(name)
    return probers


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


class SilentNodes:
    """All nodes that are silent now: where each is, and when it was first seen to be silent."""

    def __init__(self, nodes: Mapping[str, tuple[Location, float]], rules: DetectionRules) -> None:
        self._nodes, self._rules = nodes, rules
        self._by_domain = defaultdict[tuple[str, ...], list[str]](list)
        for name, (location, _) in nodes.items():
            for domain in location.domains:
                self._by_domain[domain].append(name)

    def why_partition(self, node: str, votes: Sequence[Vote]) -> str:
        """Says why `node` counts as cut off together with others; "" when it does not. votes: on this node."""
        if node not in self._nodes:
            return ""
        location, since = self._nodes[node]
        for domain in location.domains:
            within = self._rules.partition_seconds
            group = {name for name in self._by_domain[domain] if abs(self._nodes[name][1] - since) <= within}
            if len(group) > 1 and not self._outside_agrees(domain, group, votes):
                shown = ", ".join(sorted(group)[:5]) + (", …" if len(group) > 5 else "")
                return (
                    f"{len(group)} nodes of {domain[0]} {domain[-1]} fell silent within "
                    f"{within:g} s ({shown}), and no living node of that {domain[0]} confirms "
                    "that this one is gone"
                )
        return ""

    def _outside_agrees(self, domain: tuple[str, ...], group: set[str], votes: Sequence[Vote]) -> bool:
        """Tells whether those outside the group have lost the node, one on its side too, and none on its side hears
        it."""
        outside = [vote for vote in votes if vote.prober not in group]
        lost = sum(vote.stance is Stance.LOST for vote in outside)
        side = {vote.stance for vote in outside if domain in vote.location.domains}
        return Stance.LOST in side and Stance.HEARD not in side and lost >= self._rules.lost_ratio * len(outside)
