"""The strategy that is Leadsman: each node's rewards, their records' bytes, a reader's snapshot, and `decide`."""

from leadsman.decision.cache import DecisionCache
from leadsman.decision.decide import decide
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy, PressurePolicy, ScoresPolicy
from leadsman.rewards import reward_updates
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.simulator.rewards.cluster import SimulatedCluster
from leadsman.simulator.rewards.outcome import Outcome
from leadsman.state import codec, keys
from leadsman.state.key_values import Updated
from leadsman.state.records import Heartbeat, Identity, Reward
from leadsman.state.snapshot import Snapshot
from leadsman.state.snapshot_updates import apply_changes

_UNIX_SECONDS = 1_700_000_000.0
"""The agents' Unix time at the start of the simulation; the reader's monotonic clock starts at 0."""

_POLICY = Policy(scores=ScoresPolicy(pressure=PressurePolicy(weight=0.0)))
"""The default policy without the hardware score: these nodes have no hardware."""

_BEAT_SECONDS = 100.0


class LeadsmanStrategy:
    """Writes what changed since the last placement before the next one: agents report within seconds."""

    def __init__(self, world: SimulatedCluster, seed: int) -> None:
        self._world, self._seed = world, seed
        self._ledgers: dict[tuple[str, str], Reward] = {}
        self._changed: set[tuple[str, str]] = set()
        self._snapshot, self._revision, self._beats, self._beat_at = Snapshot(), 0, 0, float("-inf")
        self._memo, self._policy = DecisionCache(), _POLICY

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
        return Updated(keys.reward_key(node, pod_type), codec.encode(self._ledgers[pod_type, node]), self._revision)

    def _report(self, node: str) -> tuple[Updated, Updated]:
        identity = Identity("simulated", epoch=1, address="127.0.0.1", rack=self._world.racks[node])
        beat = Heartbeat(epoch=1, seq=self._beats, push_interval_seconds=120.0)
        return (
            Updated(keys.record_key(node, Identity), codec.encode(identity), self._revision),
            Updated(keys.record_key(node, Heartbeat), codec.encode(beat), self._revision),
        )
