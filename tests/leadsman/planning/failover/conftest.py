"""A cluster in the test's hand: who hears whom, whose heartbeat moves, whose Lease is renewed; a second at a time."""

from collections.abc import Iterable, Mapping

import pytest
from msgspec import structs

from leadsman.planning.failover.node_verdict import (
    DetectionRules,
    LeaseView,
    Location,
    NodeHealth,
    NodeVerdict,
)
from leadsman.planning.failover.verdicts import NO_MEMORY, HealthPlan, plan_node_health
from leadsman.state.records import Heartbeat, Identity, PeerSilence, Reachability
from leadsman.state.snapshot import NodeState, Snapshot

PUSH_SECONDS, CALL_SECONDS, LEASE_SECONDS, RENEW_SECONDS = 5.0, 3.0, 40.0, 10.0
EXPIRY_SECONDS = 20.0
SILENT_AFTER_SECONDS = 3.0


class World:
    """Nodes, all probing each other. Faults are sets of nodes, or of pairs (prober, target), which tests change.

    cut: pairs between which no probe passes, in one direction.
    mute: nodes whose agent reaches no etcd. unrenewed: nodes whose kubelet renews no Lease.
    renewal_stagger: seconds by which each node's kubelet renews later than that of the node before; 0: all at once.
    """

    def __init__(self, nodes: Mapping[str, Location], rules: DetectionRules | None = None) -> None:
        self.nodes, self.rules, self.now = dict(nodes), rules or DetectionRules(), 1_000.0
        self.cut: set[tuple[str, str]] = set()
        self.mute: set[str] = set()
        self.unrenewed: set[str] = set()
        self.faulty: set[str] = set()
        self.api_answers = True
        self.renewal_stagger = 1
        self.memory = NO_MEMORY
        self.states: dict[str, NodeState] = {}
        self.leases: dict[str, LeaseView] = {}
        self.plan = HealthPlan({}, (), NO_MEMORY)
        self._lost_since: dict[tuple[str, str], float] = {}
        self._reported_at: dict[str, float] = {}
        self.run(2 * EXPIRY_SECONDS)

    def kill(self, *nodes: str) -> None:
        """They answer nobody, report nothing and renew nothing."""
        self.isolate(nodes)
        self.mute |= set(nodes)
        self.unrenewed |= set(nodes)

    def kill_each(self, *nodes: str) -> None:
        """As `kill`, for nodes that do not hear each other either."""
        for node in nodes:
            self.kill(node)

    def isolate(self, nodes: Iterable[str]) -> None:
        """No probe passes between these nodes and any other; between themselves all do."""
        inside = set(nodes)
        for one in self.nodes:
            for other in self.nodes:
                if (one in inside) is not (other in inside) or (len(inside) == 1 and one in inside):
                    self.cut.add((one, other))

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            self.now += 1.0
            self._second()
            snapshot = Snapshot(self.states)
            self.plan = plan_node_health(snapshot, self.nodes, self.leases, self.rules, self.memory, self.now)
            self.memory = self.plan.memory
            if self.api_answers:
                for node in self.plan.unconfirmed_leases:
                    old = self.leases[node]
                    self.leases[node] = LeaseView(old.duration_seconds, old.changed_at, self.now)

    def begin_to_look(self) -> None:
        """As a controller that has just started: all that it sees may be of any age."""
        self.memory = NO_MEMORY
        self.states = {node: structs.replace(state, changed_at=None) for node, state in self.states.items()}
        self.leases = {node: LeaseView(LEASE_SECONDS, self.now, is_new=True) for node in self.leases}

    def verdict(self, node: str) -> NodeVerdict:
        return self.plan.verdicts[node]

    def of(self, state: NodeHealth) -> set[str]:
        return {node for node, verdict in self.plan.verdicts.items() if verdict.state is state}

    @property
    def dead(self) -> set[str]:
        return self.of(NodeHealth.DEAD)

    def _second(self) -> None:
        for number, node in enumerate(self.nodes):
            if node not in self.mute:
                self._report(node, number)
            elif self.now - self._reported_at[node] > EXPIRY_SECONDS:
                self.states.pop(node, None)
            if self.api_answers and node not in self.unrenewed and self._renews(number):
                self.leases[node] = LeaseView(LEASE_SECONDS, self.now)

    def _renews(self, number: int) -> bool:
        return (self.now + number * self.renewal_stagger) % RENEW_SECONDS == 0

    def _report(self, node: str, number: int) -> None:
        old = self.states.get(node)
        report = self._reachability(node)
        urgent = old is None or old.reachability is None or old.reachability.losses.keys() != report.losses.keys()
        urgent = urgent or old.reachability.silent_peers != report.silent_peers
        if not urgent and (self.now + number) % PUSH_SECONDS:
            return
        seq = old.heartbeat.seq + 1 if old and old.heartbeat else 1
        location = self.nodes[node]
        self._reported_at[node] = self.now
        self.states[node] = NodeState(
            Identity(node, 1, "10.0.0.1", location.zone, location.rack),
            Heartbeat(1, seq, PUSH_SECONDS),
            changed_at=self.now,
            reachability=report if urgent or old is None else old.reachability,
        )

    def _reachability(self, node: str) -> Reachability:
        """As an agent writes it; a peer that left the ring is probed no longer."""
        losses, silences = {}, {}
        for peer in self.nodes:
            if peer == node or (peer in self.mute and peer not in self.states):
                continue
            if (node, peer) not in self.cut and (peer, node) not in self.cut:
                self._lost_since.pop((node, peer), None)
            elif (node, peer) not in self._lost_since:
                self._lost_since[node, peer] = self.now
            since = self._lost_since.get((node, peer), self.now)
            losses[peer] = round(self.now - since)
            if losses[peer] >= SILENT_AFTER_SECONDS:
                silences[peer] = PeerSilence(self.now - since)
        fault = "no peer has answered for 7 s" if node in self.faulty else ""
        return Reachability(losses, silences, len(losses), len(losses) - len(silences), fault)


def in_zones(racks: Mapping[str, int], zone: str = "a") -> dict[str, Location]:
    """rack → how many nodes; all of one zone."""
    return {f"{zone}-{rack}-{n}": Location(zone, rack) for rack, nodes in racks.items() for n in range(nodes)}


@pytest.fixture
def three_zones() -> World:
    """Nine nodes, three a zone, each in a rack of its own."""
    return World({f"{zone}-{n}": Location(zone, f"r{n}") for zone in "abc" for n in range(3)})
