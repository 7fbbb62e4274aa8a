"""Runs one strategy on one seed: pods are placed one by one, and the strategy learns outcomes when they are known."""

import heapq
from collections import Counter
from itertools import count

from msgspec import Struct

from leadsman.simulator.rewards.cluster import SimulatedCluster, SimulationSettings
from leadsman.simulator.rewards.strategies import STRATEGIES, Strategy

_HEALTH_REPORT_AGES_SECONDS = (10.0, 60.0, 180.0, 300.0, 600.0)
"""Ages of a healthy pod at which its agent records its health."""


class RunResult(Struct, frozen=True):
    """Failures per 1,000 placements, before and after the faults moved; shares as multiples of the fair one."""

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

    def __init__(self, world: SimulatedCluster, strategy: Strategy) -> None:
        self.world, self.strategy = world, strategy
        self._now, self._serial, self._events = 0.0, count(), list[tuple[float, int, str, str, float, float]]()

    def place_pods(self, placements: int) -> PlacementCounts:
        failures, placed = 0, Counter[str]()
        for _ in range(placements):
            node, failed = self._place()
            failures += failed
            placed[node] += 1
        return PlacementCounts(failures, placed)

    def _place(self) -> tuple[str, bool]:
        self._advance(self.world.settings.interval_seconds)
        on_bad, elsewhere = self.world.draw_failures()
        node = self.world.choose_node(self.strategy.scores(next(self._serial), self._now))
        failed = on_bad if node in self.world.bad else elsewhere
        self.world.running[node] += 1
        self._follow(node, failed)
        return node, failed

    def _follow(self, node: str, failed: bool) -> None:
        """Schedules the pod's events. A failed pod stays on its node, as one that is restarted without success does."""
        settings = self.world.settings
        self._schedule(settings.outcome_seconds, "failed" if failed else "well", node)
        self._schedule(settings.lifetime_seconds, "gone", node)
        before = 0.0
        for age in () if failed else _HEALTH_REPORT_AGES_SECONDS:
            if age <= settings.lifetime_seconds:
                self._schedule(age, "healthy", node, before, age)
                before = age

    def _schedule(self, seconds: float, what: str, node: str, start: float = 0.0, end: float = 0.0) -> None:
        heapq.heappush(self._events, (self._now + seconds, next(self._serial), what, node, start, end))

    def _advance(self, seconds: float) -> None:
        self._now += seconds
        while self._events and self._events[0][0] <= self._now:
            at, _, what, node, start, end = heapq.heappop(self._events)
            if what == "gone":
                self.world.running[node] -= 1
            elif what == "healthy":
                self.strategy.record_health(node, start, end, at)
            else:
                self.strategy.record_outcome(node, what == "failed", at)
