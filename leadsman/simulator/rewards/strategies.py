"""Strategies that score nodes. Each gets a pod's outcome when it is known, and the health of pods while they run."""

from collections.abc import Callable
from random import Random
from typing import Protocol

from leadsman.rewards import kuberl
from leadsman.simulator.rewards.cluster import SimulatedCluster
from leadsman.simulator.rewards.leadsman_strategy import LeadsmanStrategy


class Strategy(Protocol):
    """Scores nodes for a pod, and learns from what becomes of pods."""

    def scores(self, serial: int, now: float) -> dict[str, float]:
        """Node → score for pod number `serial`; the highest wins."""

    def record_outcome(self, node: str, failed: bool, now: float) -> None:
        """Learns a pod's outcome."""

    def record_health(self, node: str, from_seconds: float, to_seconds: float, now: float) -> None:
        """Learns that a pod stayed healthy from one age to the other."""

    def node_joined(self, node: str) -> None:
        """Learns that a node joined."""


class Spreading:
    """kube-scheduler alone: all nodes score alike, so the one with the fewest pods is chosen."""

    def __init__(self, world: SimulatedCluster, seed: int) -> None:
        self._world = world

    def scores(self, serial: int, now: float) -> dict[str, float]:
        return dict.fromkeys(self._world.nodes, 0.0)

    def record_outcome(self, node: str, failed: bool, now: float) -> None:
        return

    def record_health(self, node: str, from_seconds: float, to_seconds: float, now: float) -> None:
        return

    def node_joined(self, node: str) -> None:
        return


class Oracle(Spreading):
    """Knows which nodes are bad, which no real strategy does: the best possible result."""

    def scores(self, serial: int, now: float) -> dict[str, float]:
        return {node: float(node not in self._world.bad) for node in self._world.nodes}


class FirstFailure(Spreading):
    """Knows after each failure whether the node is at fault, and avoids it for as long as it is: what learning could
    reach at best, because nobody sees a bad node before a pod has failed there."""

    def __init__(self, world: SimulatedCluster, seed: int) -> None:
        super().__init__(world, seed)
        self._seen: set[str] = set()

    def scores(self, serial: int, now: float) -> dict[str, float]:
        avoided = self._seen & self._world.bad
        return {node: float(node not in avoided) for node in self._world.nodes}

    def record_outcome(self, node: str, failed: bool, now: float) -> None:
        self._seen &= self._world.bad
        if failed and node in self._world.bad:
            self._seen.add(node)


class KubeRl(Spreading):
    """kubeRL's documented rule with honest outcomes: 1 for a pod that runs, 0 for one that fails. A node without a
    value for a type that has some reads 0, as in its extender."""

    def __init__(self, world: SimulatedCluster, seed: int) -> None:
        super().__init__(world, seed)
        self._rewards = dict.fromkeys(world.nodes, 1.0)

    def scores(self, serial: int, now: float) -> dict[str, float]:
        return {node: float(kuberl.score(self._rewards.get(node, 0.0))) for node in self._world.nodes}

    def record_outcome(self, node: str, failed: bool, now: float) -> None:
        outcome = kuberl.FAILED if failed else kuberl.RUNNING
        self._rewards[node] = kuberl.moving_average(self._rewards.get(node, 0.0), outcome)


class ThompsonSampling(Spreading):
    """Plain Thompson sampling: Beta(1, 1) and every outcome ever. Thompson, Biometrika 25 (1933)."""

    def __init__(self, world: SimulatedCluster, seed: int) -> None:
        super().__init__(world, seed)
        self._rng = Random(f"thompson {seed}")
        self._beta = {node: [1, 1] for node in world.nodes}

    def scores(self, serial: int, now: float) -> dict[str, float]:
        return {node: self._rng.betavariate(*counts) for node, counts in self._beta.items()}

    def record_outcome(self, node: str, failed: bool, now: float) -> None:
        self._beta[node][failed] += 1

    def node_joined(self, node: str) -> None:
        self._beta[node] = [1, 1]


STRATEGIES: dict[str, Callable[[SimulatedCluster, int], Strategy]] = {
    "spreading": Spreading,
    "kuberl": KubeRl,
    "thompson": ThompsonSampling,
    "leadsman": LeadsmanStrategy,
    "first-failure": FirstFailure,
    "oracle": Oracle,
}
"""Name in the report → how the strategy is made."""
