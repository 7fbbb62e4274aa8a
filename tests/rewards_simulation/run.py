"""Runs one strategy on one seed: pods are placed one by one, and the strategy learns outcomes when they are known."""

import heapq
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count

from msgspec import Struct

from tests.rewards_simulation.cluster import Outcome, SimulatedCluster, SimulationSettings
from tests.rewards_simulation.strategies import STRATEGIES, Spreading

_HEALTH_REPORT_AGES_SECONDS = (10.0, 60.0, 180.0, 300.0, 600.0)
"""Ages of a healthy pod at which its agent records its health."""


class RunResult(Struct, frozen=True):
    """Pods per 1,000 that failed or ran slowly, before and after the faults moved; shares, of which 1 is fair."""

    failures_per_1000: float
    failures_per_1000_after_move: float
    repaired_share_of_fair: float
    joined_share_of_fair: float


class PlacementCounts(Struct, frozen=True):
    """Outcome of some placements. placed: node → number of pods."""

    failures: int
    placed: Counter[str]

    def failures_per_1000(self) -> float:
        return 1_000.0 * self.failures / self.placed.total()

    def share_of_fair(self, nodes: set[str], fair: float) -> float:
        """Share of these nodes together, as a multiple of the fair one."""
        return sum(self.placed[node] for node in nodes) / self.placed.total() / (fair * len(nodes))


def run_strategy(name: str, settings: SimulationSettings, seed: int) -> RunResult:
    """Runs all phases with the strategy of this name."""
    world = SimulatedCluster(settings, seed)
    run = StrategyRun(world, STRATEGIES[name](world, seed))
    before = run.place_pods(settings.placements)
    world.move_faults()
    after = run.place_pods(settings.placements)
    world.repair_nodes()
    run.place_pods(settings.settle)
    repaired = run.place_pods(settings.window).share_of_fair(world.repaired, world.fair_share)
    joined = world.add_node()
    run.strategy.node_joined(joined)
    run.place_pods(settings.join_settle)
    share = run.place_pods(settings.window).share_of_fair({joined}, world.fair_share)
    return RunResult(before.failures_per_1000(), after.failures_per_1000(), repaired, share)


class StrategyRun:
    """Virtual time, and the events still to come."""

    def __init__(self, world: SimulatedCluster, strategy: Spreading) -> None:
        self.world, self.strategy = world, strategy
        self._now, self._serial = 0.0, count()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []

    def place_pods(self, placements: int) -> PlacementCounts:
        failures, placed = 0, Counter[str]()
        for _ in range(placements):
            node, harmed = self._place()
            failures += harmed
            placed[node] += 1
        return PlacementCounts(failures, placed)

    def _place(self) -> tuple[str, bool]:
        """The node of the next pod, and whether it failed or ran slowly there."""
        self._advance(self.world.settings.interval_seconds)
        pod = self.world.draw_pod()
        node = self.world.choose_node(self.strategy.scores(pod.type, next(self._serial), self._now))
        slow = self.world.is_slow(node)
        run_seconds = pod.run_seconds * (self.world.settings.slow_factor if slow else 1.0)
        outcome = Outcome(pod.type, node, self.world.fails(pod, node), run_seconds)
        self.world.running[node] += 1
        self._follow(outcome)
        return node, outcome.failed or slow

    def _follow(self, outcome: Outcome) -> None:
        """Schedules the pod's events. A failed pod stays on its node, as one that is restarted without success does."""
        settings, strategy = self.world.settings, self.strategy
        self._schedule(settings.outcome_seconds, lambda now: strategy.record_outcome(outcome, now))
        self._schedule(settings.lifetime_seconds, lambda now: self._remove(outcome.node))
        before = 0.0
        for age in () if outcome.failed else _HEALTH_REPORT_AGES_SECONDS:
            if age <= settings.lifetime_seconds:
                self._schedule(age, partial(strategy.record_health, outcome.pod_type, outcome.node, before, age))
                before = age

    def _remove(self, node: str) -> None:
        self.world.running[node] -= 1

    def _schedule(self, seconds: float, event: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (self._now + seconds, next(self._serial), event))

    def _advance(self, seconds: float) -> None:
        self._now += seconds
        while self._events and self._events[0][0] <= self._now:
            at, _, event = heapq.heappop(self._events)
            event(at)
