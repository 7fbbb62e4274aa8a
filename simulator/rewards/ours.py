"""Leadsman itself: each node's ledger, its record's bytes, a reader's snapshot, and `decide`."""

from clusterstate import codec, keys
from clusterstate.records import Heartbeat, Reward
from clusterstate.snapshot import Snapshot, applied
from clusterstate.store import Changed
from decision.decide import decide
from decision.memo import Memo
from decision.model import Facts, Pod
from decision.policy import Policy, Pressure, Scores
from rewards import ledger
from rewards.causes import Cause
from simulator.rewards.world import World

TYPE = "web"
_UNIX_SECONDS = 1_700_000_000.0
"""The agents' clock at the start. It is not the reader's, which begins at 0."""

_POLICY = Policy(scores=Scores(pressure=Pressure(weight=0.0)))
"""The default, without hardware, which these nodes do not have."""

_BEAT_SECONDS = 100.0


class Ours:
    """What changed since the last placement is written before the next: agents report within seconds."""

    def __init__(self, world: World, seed: int) -> None:
        self._world, self._seed = world, seed
        self._ledgers: dict[str, Reward] = {}
        self._changed: set[str] = set()
        self._snapshot, self._revision, self._beats, self._beat_at = Snapshot(), 0, 0, float("-inf")
        self._memo, self._policy = Memo(), _POLICY

    def scores(self, serial: int, now: float) -> dict[str, float]:
        self._written(now)
        pod = Pod("default", f"web-{serial}", uid=f"{self._seed}-{serial}", labels={"podtype": TYPE})
        decision = decide(pod, self._world.nodes, Facts(self._snapshot, self._policy, now, self._memo))
        return {node: float(decision.scores[node]) for node in decision.kept}

    def ended(self, node: str, failed: bool, now: float) -> None:
        if failed:
            unix = _UNIX_SECONDS + now
            self._keep(node, ledger.failed(self._ledger(node, unix), Cause.CRASH, unix))

    def healthy(self, node: str, from_seconds: float, to_seconds: float, now: float) -> None:
        unix = _UNIX_SECONDS + now
        self._keep(node, ledger.credited(self._ledger(node, unix), from_seconds, to_seconds, unix))

    def joined(self, node: str) -> None:
        self._beat_at = float("-inf")

    def _ledger(self, node: str, unix: float) -> Reward:
        return self._ledgers.get(node) or ledger.empty(unix, self._world.settings.half_life_seconds)

    def _keep(self, node: str, reward: Reward) -> None:
        self._ledgers[node] = reward
        self._changed.add(node)

    def _written(self, now: float) -> None:
        self._revision += 1
        changes = [self._change(node) for node in sorted(self._changed)]
        if now - self._beat_at >= _BEAT_SECONDS:
            self._beats, self._beat_at = self._beats + 1, now
            changes += [self._beat(node) for node in self._world.nodes]
        self._snapshot = applied(self._snapshot, changes, now)
        self._changed.clear()

    def _change(self, node: str) -> Changed:
        return Changed(keys.reward_key(node, TYPE), codec.encode(self._ledgers[node]), self._revision)

    def _beat(self, node: str) -> Changed:
        beat = Heartbeat(epoch=1, seq=self._beats, push_interval_seconds=120.0)
        return Changed(keys.key(node, Heartbeat), codec.encode(beat), self._revision)
