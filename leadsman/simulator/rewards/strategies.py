"""Strategies that score nodes. Each gets a pod's outcome when it is known, and the health of pods while they run."""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from math import exp
from random import Random
from typing import Protocol

from leadsman.rewards import kuberl
from leadsman.simulator.rewards.cluster import SimulatedCluster
from leadsman.simulator.rewards.leadsman_strategy import LeadsmanStrategy
from leadsman.simulator.rewards.outcome import Outcome

RETRY_SECONDS = 16_200.0
"""After which the best learner tries an avoided node again. With a longer wait, repaired nodes get less than 90 % of
their fair share in the window that is judged: they are back after half of it on average, at most 4.5 hours later."""

_PRIOR_BAD_RATIO, _MAX_BAD_RATIO = 0.05, 0.999
_CHANGES_PER_SECOND = 0.1 / 3_600.0
"""Of a sound node: one in ten hours."""

_FEWER_CHANGES_PER_SECOND = 0.03 / 3_600.0
"""A failure passes for chance more often. With the default settings, as many nodes stay in use as under Leadsman."""


class Strategy(Protocol):
    """Scores nodes for a pod, and learns from what becomes of pods."""

    def scores(self, pod_type: str, serial: int, now: float) -> dict[str, float]:
        """Node → score for pod number `serial`; the highest wins."""

    def record_outcome(self, outcome: Outcome, now: float) -> None:
        """Learns a pod's outcome."""

    def record_health(self, pod_type: str, node: str, from_seconds: float, to_seconds: float, now: float) -> None:
        """Learns that a pod stayed healthy from one age to the other."""

    def node_joined(self, node: str) -> None:
        """Learns that a node joined."""


class Spreading:
    """kube-scheduler alone: all nodes score alike, so the one with the fewest pods is chosen."""

    def __init__(self, world: SimulatedCluster, seed: int) -> None:
        self._world = world

    def scores(self, pod_type: str, serial: int, now: float) -> dict[str, float]:
        return dict.fromkeys(self._world.nodes, 0.0)

    def record_outcome(self, outcome: Outcome, now: float) -> None:
        return

    def record_health(self, pod_type: str, node: str, from_seconds: float, to_seconds: float, now: float) -> None:
        return

    def node_joined(self, node: str) -> None:
        return


class Oracle(Spreading):
    """Knows which nodes are bad, which no real strategy does: the best possible result."""

    def scores(self, pod_type: str, serial: int, now: float) -> dict[str, float]:
        return {node: float(node not in self._world.bad) for node in self._world.nodes}


class FirstFailure(Spreading):
    """Knows after each pod that a bad node harmed that the node is bad, and when it is repaired: what learning could
    reach if repairs were announced. Nobody sees a bad node before a pod was there."""

    def __init__(self, world: SimulatedCluster, seed: int) -> None:
        super().__init__(world, seed)
        self._seen: set[str] = set()

    def scores(self, pod_type: str, serial: int, now: float) -> dict[str, float]:
        avoided = self._seen & self._world.bad
        return {node: float(node not in avoided) for node in self._world.nodes}

    def record_outcome(self, outcome: Outcome, now: float) -> None:
        self._seen &= self._world.bad
        if outcome.node in self._world.bad and (outcome.failed or self._world.is_slow(outcome.node)):
            self._seen.add(outcome.node)


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


class TwoStateFilter(Spreading):
    """Bayes' rule for a node that is sound or bad and changes at a rate, for each type: a hidden Markov model's filter.

    It knows how many pods fail on either. It uses few nodes: after a failure, one that ran another pod well seconds
    before is still sound, and one that was idle may have changed. Rabiner, Proc. IEEE 77 (1989).
    """

    def __init__(self, world: SimulatedCluster, seed: int, changes_per_second: float = _CHANGES_PER_SECOND) -> None:
        super().__init__(world, seed)
        settings, self._changes_per_second = world.settings, changes_per_second
        bad, sound = settings.failures_on_bad_ratio, settings.failures_elsewhere_ratio
        self._likelihood_ratios = {True: bad / max(sound, 1e-6), False: (1.0 - bad) / max(1.0 - sound, 1e-6)}
        self._bad_ratio: dict[tuple[str, str], float] = {}
        self._learned_at: dict[tuple[str, str], float] = {}

    def scores(self, pod_type: str, serial: int, now: float) -> dict[str, float]:
        return {node: 1.0 - max(_PRIOR_BAD_RATIO, self._now_bad(pod_type, node, now)) for node in self._world.nodes}

    def _now_bad(self, pod_type: str, node: str, now: float) -> float:
        """Probability that the node is bad. Without news it rises to the prior; above that it stays until the trial."""
        key = (pod_type, node)
        before = self._bad_ratio.get(key, _PRIOR_BAD_RATIO)
        idle_seconds = now - self._learned_at.get(key, now)
        if before > _PRIOR_BAD_RATIO:
            return before if idle_seconds < RETRY_SECONDS else _PRIOR_BAD_RATIO
        return min(_PRIOR_BAD_RATIO, 1.0 - (1.0 - before) * exp(-self._changes_per_second * idle_seconds))

    def record_outcome(self, outcome: Outcome, now: float) -> None:
        bad = self._now_bad(outcome.pod_type, outcome.node, now)
        harmed = outcome.failed or self._world.is_slow(outcome.node)
        odds = bad / (1.0 - bad) * self._likelihood_ratios[harmed]
        self._bad_ratio[outcome.pod_type, outcome.node] = min(odds / (1.0 + odds), _MAX_BAD_RATIO)
        self._learned_at[outcome.pod_type, outcome.node] = now


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


STRATEGIES: dict[str, Callable[[SimulatedCluster, int], Strategy]] = {
    "spreading": Spreading,
    "kuberl": KubeRl,
    "thompson": ThompsonSampling,
    "leadsman": LeadsmanStrategy,
    "two-state": TwoStateFilter,
    "two-state-wide": partial(TwoStateFilter, changes_per_second=_FEWER_CHANGES_PER_SECOND),
    "best-learner": BestLearner,
    "first-failure": FirstFailure,
    "oracle": Oracle,
}
"""Name in the report → how the strategy is made."""
