"""Kills nodes of a simulated cluster one after another, and says when each was dead and its pods bound again."""

from collections.abc import Callable
from random import Random

from msgspec import Struct

from leadsman.kube.leader_election import ElectionTiming
from leadsman.planning.failover.model import DetectionRules, HealthInputs, Location, NodeHealth
from leadsman.planning.failover.verdicts import NO_MEMORY, HealthPlan, plan_node_health
from leadsman.planning.recovery.model import RecoveryBudget
from leadsman.simulator.failover.agents import SimulatedAgents
from leadsman.simulator.failover.control_plane import ControlPlane
from leadsman.state.snapshot import Snapshot

RACK_NODES, ZONES = 20, 3
SETTLE_SECONDS, PATIENCE_SECONDS, RETURN_SECONDS = 60, 180, 30
RAISED_BUDGET = RecoveryBudget(least_nodes=1_000_000)


class SimulatedDeath(Struct, frozen=True):
    """Virtual seconds since the cut; None: not within PATIENCE_SECONDS.

    detected: the verdict. decided: the first pod was deleted. bound: the last replacement has a node.
    verdict: at the end.
    bound_to_dead: replacements that were bound to a dead node.
    """

    node: str
    pods: int
    detected: float | None
    decided: float | None
    bound: float | None
    verdict: NodeHealth
    bound_to_dead: int


class FailoverSimulation:
    """A cluster of so many nodes in three zones, with racks of 20, that has settled.

    pods: bounded ones.
    """

    def __init__(self, nodes: int, pods: int, seed: int) -> None:
        self._rng = Random(seed)
        self.locations = {
            f"node-{number:05}": Location(f"zone-{number % ZONES}", f"rack-{number // ZONES // RACK_NODES}")
            for number in range(nodes)
        }
        self.agents = SimulatedAgents(self.locations, self._rng)
        self.control_plane = ControlPlane(self.locations, pods, self._rng, RAISED_BUDGET)
        self.health = HealthPlan({}, (), NO_MEMORY)
        self._rules, self._leads_from = DetectionRules(), 0.0
        self._run(SETTLE_SECONDS, lambda: False)

    def death(self, *, with_leader: bool = False, extender_answers: bool = True) -> SimulatedDeath:
        """Of a random node with pods. with_leader: the next leader needs the Lease first."""
        node = self._rng.choice(self.control_plane.loaded_nodes())
        [death] = self.deaths(node, with_leader=with_leader, extender_answers=extender_answers)
        return death

    def two_of_one_rack(self) -> tuple[str, str]:
        """Random ones, of which the first has pods and none is one that pods are bound to."""
        while True:
            first = self._rng.choice(self.control_plane.loaded_nodes())
            others = [name for name, location in self.locations.items() if location == self.locations[first]]
            second = self._rng.choice(others)
            if second != first and second not in self.control_plane.references.values():
                return first, second

    def deaths(self, *nodes: str, with_leader: bool = False, extender_answers: bool = True) -> list[SimulatedDeath]:
        """Of these nodes at once; they are back when this returns."""
        world, agents = self.control_plane, self.agents
        lost = {node: [pod.uid for pod in world.cluster.pods_on(node)] for node in nodes}
        world.deleted_at, world.extender_answers = None, extender_answers
        world.bound.clear()
        cut = {node: agents.kill(node) for node in nodes}
        if with_leader:
            timing = ElectionTiming()
            wait = timing.lease_duration_seconds + timing.retry_period_seconds * self._rng.uniform(0, 1.2)
            self._leads_from = min(cut.values()) + wait
        detected: dict[str, float] = {}

        def is_over() -> bool:
            for node in nodes:
                if self.health.verdicts[node].state is NodeHealth.DEAD:
                    detected.setdefault(node, agents.now - cut[node])
            return detected.keys() == set(nodes) and len(world.bound) >= sum(map(len, lost.values()))

        self._run(PATIENCE_SECONDS, is_over)
        all_bound = is_over()
        last = max((at for _, at in world.bound), default=0.0)
        results = [
            SimulatedDeath(
                node,
                len(lost[node]),
                detected.get(node),
                None if world.deleted_at is None else world.deleted_at - cut[node],
                last - cut[node] if all_bound else None,
                self.health.verdicts[node].state,
                sum(to in agents.dead for to, _ in world.bound),
            )
            for node in nodes
        ]
        for node in nodes:
            agents.revive(node)
            world.returned(node)
        self._run(RETURN_SECONDS, lambda: False)
        return results

    def _run(self, seconds: int, is_over: Callable[[], bool]) -> None:
        for _ in range(seconds):
            self.agents.step()
            now, inputs = self.agents.now, HealthInputs(self.locations, self.agents.leases)
            snapshot = Snapshot(self.agents.states)
            self.health = plan_node_health(snapshot, inputs, self._rules, self.health.memory, now)
            self.agents.confirm(self.health.unconfirmed_leases)
            self.control_plane.step(self.health.verdicts, now, leads=now >= self._leads_from)
            if is_over():
                return
