"""Decides which nodes are dead and which only suspect: a plan without actions, made each second from all that was seen.

snapshot, Leases ─▶ observations ─▶ votes ─▶ signals ─▶ partition? ─▶ verdict
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial

from msgspec import Struct

from leadsman.cluster.model import Location
from leadsman.planning.failover.node_verdict import (
    DetectionRules,
    LeaseView,
    NodeHealth,
    NodeVerdict,
    Signal,
    Signals,
    Timeline,
    Truth,
    VerdictReason,
)
from leadsman.planning.failover.signals import (
    Observation,
    RenewalCounts,
    SilentNodes,
    Stance,
    Vote,
    assigned_probers,
    heartbeat_signal,
    lease_signal,
    observe,
    peers_signal,
    vote,
)
from leadsman.state.snapshot import Snapshot

# What the three signals mean together, for a node that fell silent alone.

_T, _F, _U, _ANY = {Truth.TRUE}, {Truth.FALSE}, {Truth.UNKNOWN}, set(Truth)
_NOT_TRUE = _F | _U

_Row = tuple[set[Truth], set[Truth], set[Truth], NodeHealth, VerdictReason]

_TABLE: tuple[_Row, ...] = (
    # peers, heartbeat, Lease
    (_T, _T, _T, NodeHealth.DEAD, VerdictReason.DEAD),
    (_U, _U, _U, NodeHealth.HEALTHY, VerdictReason.NO_EVIDENCE),
    (_NOT_TRUE, _NOT_TRUE, _NOT_TRUE, NodeHealth.HEALTHY, VerdictReason.REACHABLE),
    (_T, _ANY, _F, NodeHealth.SUSPECT, VerdictReason.DATA_PLANE_DOWN),
    (_T, _F, _ANY, NodeHealth.SUSPECT, VerdictReason.STILL_REPORTS),
    (_F, _T, _T, NodeHealth.SUSPECT, VerdictReason.CUT_FROM_CONTROL_PLANE),
    (_F, _T, _NOT_TRUE, NodeHealth.SUSPECT, VerdictReason.AGENT_SILENT),
    (_U, _T, _F, NodeHealth.SUSPECT, VerdictReason.AGENT_SILENT),
    (_F, _NOT_TRUE, _T, NodeHealth.SUSPECT, VerdictReason.KUBELET_SILENT),
    (_U, _F, _T, NodeHealth.SUSPECT, VerdictReason.KUBELET_SILENT),
    (_ANY, _ANY, _ANY, NodeHealth.SUSPECT, VerdictReason.INCOMPLETE),
)
"""The first row that fits holds."""


def of_signals(truths: tuple[Truth, Truth, Truth]) -> tuple[NodeHealth, VerdictReason]:
    """Concludes from the signals of peers, heartbeat and Lease."""
    peers, heartbeat, lease = truths
    return next(
        (state, reason)
        for of_peers, of_heartbeat, of_lease, state, reason in _TABLE
        if peers in of_peers and heartbeat in of_heartbeat and lease in of_lease
    )


_HEARD = Signal(Truth.FALSE, "no peer reports that it lost it")
_NOT_PROBED = Signal(Truth.UNKNOWN, "no peer that reports now probes it")

Votes = Mapping[str, tuple[Vote, ...]]


class NodeMemory(Struct, frozen=True):
    """Says what is remembered of one node from one plan to the next.

    silent_since: when it was first seen to be silent; None: it is not.
    """

    observed: Observation
    verdict: NodeVerdict
    silent_since: float | None = None


HealthMemory = Mapping[str, NodeMemory]
NO_MEMORY: HealthMemory = {}


class HealthPlan(Struct, frozen=True):
    """The health of all nodes, as it is judged now.

    verdicts: one for each node.
    unconfirmed_leases: nodes whose Lease is to be read directly now, because a verdict may turn on it.
    memory: for the next plan.
    """

    verdicts: Mapping[str, NodeVerdict]
    unconfirmed_leases: tuple[str, ...]
    memory: HealthMemory


def plan_node_health(
    snapshot: Snapshot,
    nodes: Mapping[str, Location],
    leases: Mapping[str, LeaseView],
    rules: DetectionRules,
    memory: HealthMemory,
    now: float,
) -> HealthPlan:
    """Returns the verdict on each node.

    nodes: those that exist in Kubernetes, with zone and rack from their labels, which go before what agents say.
    leases: of kube-node-lease, by node. now: monotonic seconds of the clock that stamped snapshot and Leases.
    """
    observed = {
        node: observe(memory[node].observed if node in memory else None, snapshot.nodes.get(node), labels, rules, now)
        for node, labels in nodes.items()
    }
    votes = _votes(observed, rules)
    lost = {node for node in observed if node in memory and _is_lost(memory[node])}
    signals = _signals(observed, votes, leases, lost, rules, now)
    silent = {node: _silent_since(memory.get(node), signals[node], now) for node in observed}
    groups = SilentNodes({node: (observed[node].location, at) for node, at in silent.items() if at is not None}, rules)
    verdicts = {}
    for node in observed:
        before, cast = memory[node].verdict if node in memory else None, votes.get(node, ())
        partition = groups.why_partition(node, cast)
        verdicts[node] = _verdict(node, observed[node], signals[node], partition, cast, before, now)
    return HealthPlan(
        verdicts,
        _leases_to_read(signals, leases, rules, now),
        {node: NodeMemory(observed[node], verdicts[node], silent[node]) for node in observed},
    )


def _votes(observed: Mapping[str, Observation], rules: DetectionRules) -> Votes:
    """Maps each node to its votes, for nodes that some peer reports as silent. The others need none."""
    reports = [seen.report for seen in observed.values() if seen.is_current and seen.report is not None]
    accused = {name for report in reports for name in report.silences if name in observed}
    return {
        node: tuple(vote(prober, observed[prober], node, observed[node], rules) for prober in probers)
        for node, probers in assigned_probers(observed, accused).items()
    }


def _is_lost(before: NodeMemory) -> bool:
    """Tells whether the node's Lease no longer says if the API server works: it is dead, or is by the other two
    signals.

    Without this three of nine nodes that die at once could stay suspect, each because the Leases of the other two stand
    still. Nodes that may be cut off together stay witnesses: those of a partition, and those that no zone or rack
    names, of which nobody can say whether they are one.
    """
    verdict = before.verdict
    by_both = verdict.signals.peers.truth is verdict.signals.heartbeat.truth is Truth.TRUE
    may_be_cut_off = verdict.state is NodeHealth.PARTITION or not before.observed.location.domains
    return verdict.state is NodeHealth.DEAD or (by_both and not may_be_cut_off)


def _signals(
    observed: Mapping[str, Observation],
    votes: Votes,
    leases: Mapping[str, LeaseView],
    lost: set[str],
    rules: DetectionRules,
    now: float,
) -> dict[str, Signals]:
    """Reads the three signals of a node.

    lost: nodes whose Leases no longer say whether the API server works, as do those of nodes that left.
    """
    probed = {name for seen in observed.values() if seen.is_current and seen.report for name in seen.report.losses}
    probers = Counter(seen.location for seen in observed.values() if seen.report is not None)
    agents = {node for node, seen in observed.items() if seen.heartbeat is not None and not seen.left}
    moving = {node for node in agents if observed[node].moves(now, rules.call_timeout_seconds)}
    renewals = RenewalCounts(leases, {node for node, seen in observed.items() if not seen.left} - lost)
    signals = {}
    for node, seen in observed.items():
        if node in votes:
            others = probers - Counter([seen.location] if seen.report is not None else [])
            peers = peers_signal(votes[node], len(observed), others.keys(), rules)
        else:
            peers = _HEARD if node in probed else _NOT_PROBED
        signals[node] = Signals(
            peers,
            heartbeat_signal(seen, len(agents) - (node in agents), len(moving) - (node in moving), rules, now),
            lease_signal(leases.get(node), renewals.others(node), partial(renewals.others_since, node), rules, now),
        )
    return signals


def _silent_since(before: NodeMemory | None, signals: Signals, now: float) -> float | None:
    """A node is silent when its peers have lost it or when it reports no more; a dead one until it gives a sign."""
    was_dead = before is not None and before.verdict.state is NodeHealth.DEAD and Truth.FALSE not in signals.truths
    if not was_dead and Truth.TRUE not in (signals.peers.truth, signals.heartbeat.truth):
        return None
    return now if before is None or before.silent_since is None else before.silent_since


def _leases_to_read(
    signals: Mapping[str, Signals], leases: Mapping[str, LeaseView], rules: DetectionRules, now: float
) -> tuple[str, ...]:
    """Returns the nodes that a Lease decides on: first those that another signal accuses, then those of which only the
    kubelet may have stopped.

    A kubelet under load renews late, so the second are read once their Lease has run out; and when more have run out
    than may fail at once, it is the watch or the API server that failed.
    """
    unknown = {node: each for node, each in signals.items() if each.lease.truth is Truth.UNKNOWN and node in leases}
    others = {node: {each.peers.truth, each.heartbeat.truth} for node, each in unknown.items()}
    accused = tuple(node for node, truths in others.items() if Truth.TRUE in truths)
    run_out = {node for node, lease in leases.items() if now - lease.changed_at > lease.duration_seconds}
    if len(run_out) - 1 > (1.0 - rules.renewed_ratio) * (len(leases) - 1):
        return accused
    alive = (node for node, truths in others.items() if Truth.TRUE not in truths and Truth.FALSE in truths)
    return (*accused, *(node for node in alive if node in run_out))


def _verdict(
    node: str,
    observed: Observation,
    signals: Signals,
    partition: str,
    cast: tuple[Vote, ...],
    before: NodeVerdict | None,
    now: float,
) -> NodeVerdict:
    state, reason = of_signals(signals.truths)
    if reason is VerdictReason.AGENT_SILENT and observed.counts(now):
        # Nothing but its agent is late: that is no hurry, and busy machines come near the heartbeat's own limit.
        state, reason = NodeHealth.HEALTHY, VerdictReason.REACHABLE
    message = "; ".join(each.reason for each in (signals.peers, signals.heartbeat, signals.lease))
    if before is not None and before.state is NodeHealth.DEAD and Truth.FALSE not in signals.truths:
        state, reason = (
            NodeHealth.DEAD,
            VerdictReason.DEAD,
        )  # Its peers stop probing it: only a sign of life revives it.
    elif partition and signals.peers.truth is Truth.TRUE:
        state, reason, message = NodeHealth.PARTITION, VerdictReason.PARTITION, f"{partition}; {message}"
    since = before.since if before is not None and before.state is state else now
    timeline = _timeline(state, _lost_since(cast, observed), before.timeline if before is not None else Timeline(), now)
    return NodeVerdict(node, state, since, reason, message, signals, timeline, observed.location)


def _timeline(state: NodeHealth, lost_since: float | None, before: Timeline, now: float) -> Timeline:
    """Returns when the node became suspect and dead; a healthy node has no times but of the probes that are being lost
    now."""
    if state is NodeHealth.HEALTHY:
        return Timeline(lost_since)
    return Timeline(
        lost_since if before.suspect_at is None or before.first_lost_at is None else before.first_lost_at,
        now if before.suspect_at is None else before.suspect_at,
        now if before.dead_at is None and state is NodeHealth.DEAD else before.dead_at,
    )


def _lost_since(votes: tuple[Vote, ...], observed: Observation) -> float | None:
    """Returns when the first probe was lost since the node's last heartbeat; without one since then, the latest
    before."""
    starts = [each.lost_since for each in votes if each.stance is Stance.LOST]
    after = [start for start in starts if start >= observed.moved_at]
    return min(after) if after else max(starts, default=None)
