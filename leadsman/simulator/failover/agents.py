"""What the agents and kubelets of a cluster write when nodes die: heartbeats, reachability, Leases.

Each agent probes 4 nodes of its own rack and 12 others. Three probes are lost 3 s after the first one was sent.
"""

from collections.abc import Iterable, Mapping
from random import Random

from agent.urgent_reports import URGENT_REPORTS_PER_SECOND_OF_ALL
from leadsman.planning.failover.model import LeaseView, Location
from leadsman.state.records import LOSSES_OF_A_SILENT_PEER, Heartbeat, Identity, PeerSilence, Reachability
from leadsman.state.report_timing import ReportTiming, timing_for_nodes
from leadsman.state.snapshot import NodeState

NEAR_PEERS, RANDOM_PEERS = 4, 12
PROBE_SECONDS, SILENT_SECONDS = 1.0, 3.0
LEASE_SECONDS, RENEW_SECONDS = 40.0, 10.0
WRITE_SECONDS = 0.05
"""Until a record has reached the controller's watch."""


class SimulatedAgents:
    """All agents and kubelets. Call `step` each second.

    states, leases: what the controller sees.
    now: virtual seconds.
    """

    def __init__(self, locations: Mapping[str, Location], rng: Random) -> None:
        self.now, self._rng, self._locations = 1_000.0, rng, locations
        self.timing = timing_for_nodes(ReportTiming(), len(locations))
        self.states: dict[str, NodeState] = {}
        self.leases: dict[str, LeaseView] = {}
        self.dead: set[str] = set()
        self._peers = {name: self._chosen_peers(name) for name in locations}
        self._probers: dict[str, list[str]] = {name: [] for name in locations}
        for name, peers in self._peers.items():
            for peer in peers:
                self._probers[peer].append(name)
        push = self.timing.push_interval_seconds
        self._report_at = {name: self.now + rng.uniform(0, push) for name in locations}
        self._renew_at = {name: self.now + rng.uniform(0, RENEW_SECONDS) for name in locations}
        self._epochs = dict.fromkeys(locations, 1)
        self._first_lost: dict[tuple[str, str], float] = {}

    def kill(self, node: str) -> float:
        """When: a random moment of the next second. It answers nobody, reports nothing and renews nothing from then."""
        at = self.now + self._rng.uniform(0, 1)
        self.dead.add(node)
        for prober in self._probers[node]:
            first = self._first_lost[prober, node] = at + self._rng.uniform(0, PROBE_SECONDS)
            spread = self._rng.uniform(0, len(self._locations) / URGENT_REPORTS_PER_SECOND_OF_ALL)
            self._report_at[prober] = min(self._report_at[prober], first + SILENT_SECONDS + spread)
        return at

    def revive(self, node: str) -> None:
        self.dead.remove(node)
        self._epochs[node] += 1
        self._report_at[node] = self._renew_at[node] = self.now
        for prober in self._probers[node]:
            del self._first_lost[prober, node]
            self._report_at[prober] = min(self._report_at[prober], self.now + PROBE_SECONDS)

    def confirm(self, nodes: Iterable[str]) -> None:
        """Direct reads of these nodes' Leases."""
        for node in nodes:
            lease = self.leases[node]
            self.leases[node] = LeaseView(lease.duration_seconds, lease.changed_at, self.now)

    def step(self) -> None:
        """The next second."""
        self.now += 1.0
        for node in self._locations:
            if node in self.dead:
                self._expire(node)
                continue
            if self._report_at[node] + WRITE_SECONDS <= self.now:
                self._report(node, self._report_at[node] + WRITE_SECONDS)
                self._report_at[node] += self.timing.push_interval_seconds * self._rng.uniform(0.9, 1.1)
            if self._renew_at[node] + WRITE_SECONDS <= self.now:
                self.leases[node] = LeaseView(LEASE_SECONDS, self._renew_at[node] + WRITE_SECONDS)
                self._renew_at[node] += RENEW_SECONDS * self._rng.uniform(1.0, 1.04)

    def _expire(self, node: str) -> None:
        state = self.states.get(node)
        if state is not None and self.now - (state.changed_at or 0.0) > self.timing.lease_seconds:
            del self.states[node]

    def _report(self, node: str, at: float) -> None:
        before, location = self.states.get(node), self._locations[node]
        seq = before.heartbeat.seq + 1 if before is not None and before.heartbeat is not None else 1
        reachability = self._reachability(node, at)
        old = before.reachability if before is not None else None
        if old is not None and old.silences.keys() == reachability.silences.keys():
            reachability = old
        self.states[node] = NodeState(
            Identity(node, self._epochs[node], "10.0.0.1", location.zone, location.rack),
            Heartbeat(self._epochs[node], seq, self.timing.push_interval_seconds),
            changed_at=at,
            reachability=reachability,
        )

    def _reachability(self, node: str, at: float) -> Reachability:
        lost = {
            peer: at - first
            for peer in self._peers[node]
            if (first := self._first_lost.get((node, peer))) is not None and at >= first + SILENT_SECONDS
        }
        losses = {peer: LOSSES_OF_A_SILENT_PEER if peer in lost else 0 for peer in self._peers[node]}
        silences = {peer: PeerSilence(age) for peer, age in lost.items()}
        return Reachability(losses, silences, len(losses), len(losses) - len(lost))

    def _chosen_peers(self, node: str) -> list[str]:
        mine, others = self._locations[node], [name for name in self._locations if name != node]
        near = [name for name in others if self._locations[name] == mine]
        chosen = self._rng.sample(near, min(NEAR_PEERS, len(near)))
        far = [name for name in others if name not in chosen]
        return [*chosen, *self._rng.sample(far, min(RANDOM_PEERS, len(far)))]
