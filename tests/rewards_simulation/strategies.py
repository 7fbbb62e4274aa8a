"""Strategies that score nodes. Each gets a pod's outcome when it is known, and the health of pods while they run."""

from collections import defaultdict
from random import Random

from leadsman.decision.decide import decide
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy, PressurePolicy, ScoresPolicy
from leadsman.decision.view import Views
from leadsman.rewards import kuberl, reward_updates
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.state import keys
from leadsman.state.records import Heartbeat, Identity, Reward, encode_record
from leadsman.state.snapshot import Snapshot
from leadsman.state.snapshot_updates import apply_changes
from leadsman.state.store import Updated
from tests.rewards_simulation.cluster import Outcome, SimulatedCluster

RETRY_SECONDS = 16_200.0
"""After which the best learner tries an avoided node again. With a longer wait, repaired nodes get less than 90 % of
their fair share in the window that is judged: they are back after half of it on average, at most 4.5 hours later."""

_UNIX_SECONDS = 1_700_000_000.0
"""The agents' Unix time at the start of the simulation; the reader's monotonic clock starts at 0."""

_POLICY = Policy(scores=ScoresPolicy(pressure=PressurePolicy(weight=0.0)))
"""The default policy without the hardware score: these nodes have no hardware."""

_BEAT_SECONDS = 100.0


class Spreading:
    """kube-scheduler alone: all nodes score alike, so the one with the fewest pods is chosen.

    The other strategies override what they learn from.
    """

    def __init__(self, world: SimulatedCluster, seed: int) -> None:
        self._world = world

    def scores(self, pod_type: str, serial: int, now: float) -> dict[str, float]:
        """Node → score for pod number `serial`; the highest wins."""
        return dict.fromkeys(self._world.nodes, 0.0)

    def record_outcome(self, outcome: Outcome, now: float) -> None:
        """Learns a pod's outcome."""

    def record_health(self, pod_type: str, node: str, from_seconds: float, to_seconds: float, now: float) -> None:
        """Learns that a pod stayed healthy from one age to the other."""

    def node_joined(self, node: str) -> None:
        """Learns that a node joined."""


class Oracle(Spreading):
    """Knows which nodes are bad, which no real strategy does: the best possible result."""

    def scores(self, pod_type: str, serial: int, now: float) -> dict[str, float]:
        return {node: float(node not in self._world.bad) for node in self._world.nodes}


class BestLearner(Spreading):
    """The oracle with what a learner can know: after each pod that was harmed, or that was a trial, it is told whether
    that node is bad, and it tries a node that it avoids with one pod each RETRY_SECONDS, as repairs are not announced.
    """

    def __init__(self, world: SimulatedCluster, seed: int) -> None:
        super().__init__(world, seed)
        self._avoided_since: dict[str, float] = {}

    def scores(self, pod_type: str, serial: int, now: float) -> dict[str, float]:
        return {node: float(self._is_open(node, now)) for node in self._world.nodes}

    def _is_open(self, node: str, now: float) -> bool:
        since = self._avoided_since.get(node)
        return since is None or (now - since >= RETRY_SECONDS and not self._world.running[node])

    def record_outcome(self, outcome: Outcome, now: float) -> None:
        node, bad = outcome.node, outcome.node in self._world.bad
        harmed = bad and (outcome.failed or self._world.is_slow(node))
        if harmed or (bad and node in self._avoided_since):
            self._avoided_since[node] = now
        elif not bad:
            self._avoided_since.pop(node, None)


class KubeRl(Spreading):
    """kubeRL's documented rule with honest outcomes: 1 for a pod that runs, 0 for one that fails. A node without a
    value for a type that has some reads 0, as in its extender."""

    def __init__(self, world: SimulatedCluster, seed: int) -> None:
        super().__init__(world, seed)
        nodes = tuple(world.nodes)
        self._rewards: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(nodes, 1.0))

    def scores(self, pod_type: str, serial: int, now: float) -> dict[str, float]:
        rewards = self._rewards[pod_type]
        return {node: float(kuberl.score(rewards.get(node, 0.0))) for node in self._world.nodes}

    def record_outcome(self, outcome: Outcome, now: float) -> None:
        rewards = self._rewards[outcome.pod_type]
        value = kuberl.FAILED if outcome.failed else kuberl.RUNNING
        rewards[outcome.node] = kuberl.moving_average(rewards.get(outcome.node, 0.0), value)


class ThompsonSampling(Spreading):
    """Plain Thompson sampling: Beta(1, 1) and every outcome ever, of each type. Thompson, Biometrika 25 (1933)."""

    def __init__(self, world: SimulatedCluster, seed: int) -> None:
        super().__init__(world, seed)
        self._rng = Random(f"thompson {seed}")
        self._beta: dict[tuple[str, str], list[int]] = defaultdict(lambda: [1, 1])

    def scores(self, pod_type: str, serial: int, now: float) -> dict[str, float]:
        return {node: self._rng.betavariate(*self._beta[pod_type, node]) for node in self._world.nodes}

    def record_outcome(self, outcome: Outcome, now: float) -> None:
        self._beta[outcome.pod_type, outcome.node][outcome.failed] += 1


class Leadsman(Spreading):
    """The real code: rewards of the agents, their records' bytes, a reader's snapshot, and `decide`.

    Writes what changed since the last placement before the next one: agents report within seconds.
    """

    def __init__(self, world: SimulatedCluster, seed: int) -> None:
        super().__init__(world, seed)
        self._seed = seed
        self._ledgers: dict[tuple[str, str], Reward] = {}
        self._changed: set[tuple[str, str]] = set()
        self._snapshot, self._revision, self._beats, self._beat_at = Snapshot(), 0, 0, float("-inf")
        self._memo, self._policy = Views(), _POLICY

    def scores(self, pod_type: str, serial: int, now: float) -> dict[str, float]:
        self._write_changes(now)
        pod = PodInfo("default", f"pod-{serial}", uid=f"{self._seed}-{serial}", labels={"podtype": pod_type})
        decision = decide(pod, self._world.nodes, DecisionInputs(self._snapshot, self._policy, now, self._memo))
        return {node: float(decision.scores[node]) for node in decision.kept}

    def record_outcome(self, outcome: Outcome, now: float) -> None:
        unix = _UNIX_SECONDS + now
        before = self._ledger(outcome.pod_type, outcome.node, unix)
        if outcome.failed:
            after = reward_updates.record_incident(before, IncidentCause.CRASH, unix)
        else:
            after = reward_updates.record_quality(before, "run_time", outcome.run_seconds, unix)
        self._keep(outcome.pod_type, outcome.node, after)

    def record_health(self, pod_type: str, node: str, from_seconds: float, to_seconds: float, now: float) -> None:
        unix = _UNIX_SECONDS + now
        before = self._ledger(pod_type, node, unix)
        self._keep(pod_type, node, reward_updates.credit_health(before, from_seconds, to_seconds, unix))

    def node_joined(self, node: str) -> None:
        self._beat_at = float("-inf")

    def _ledger(self, pod_type: str, node: str, unix: float) -> Reward:
        half_life_seconds = self._world.settings.half_life_seconds
        return self._ledgers.get((pod_type, node)) or reward_updates.new_reward(unix, half_life_seconds)

    def _keep(self, pod_type: str, node: str, reward: Reward) -> None:
        self._ledgers[pod_type, node] = reward
        self._changed.add((pod_type, node))

    def _write_changes(self, now: float) -> None:
        self._revision += 1
        changes = [self._change(*key) for key in sorted(self._changed)]
        if now - self._beat_at >= _BEAT_SECONDS:
            self._beats, self._beat_at = self._beats + 1, now
            changes += [change for node in self._world.nodes for change in self._report(node)]
        self._snapshot = apply_changes(self._snapshot, changes, now)
        self._changed.clear()

    def _change(self, pod_type: str, node: str) -> Updated:
        return Updated(keys.reward_key(node, pod_type), encode_record(self._ledgers[pod_type, node]), self._revision)

    def _report(self, node: str) -> tuple[Updated, Updated]:
        identity = Identity("simulated", epoch=1, address="127.0.0.1", rack=self._world.racks[node])
        beat = Heartbeat(epoch=1, seq=self._beats, push_interval_seconds=120.0)
        return (
            Updated(keys.record_key(node, Identity), encode_record(identity), self._revision),
            Updated(keys.record_key(node, Heartbeat), encode_record(beat), self._revision),
        )


STRATEGIES: dict[str, type[Spreading]] = {
    "spreading": Spreading,
    "kuberl": KubeRl,
    "thompson": ThompsonSampling,
    "leadsman": Leadsman,
    "best-learner": BestLearner,
    "oracle": Oracle,
}
"""Name in the report → the strategy."""
