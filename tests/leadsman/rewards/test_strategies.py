"""Rewards beside kubeRL's rule on short runs. `python -m benchmarks.rewards` has the numbers, of many seeds."""

from statistics import median

import pytest
from msgspec import structs

from leadsman.rewards import kuberl
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.rewards.reward_updates import credit_health, new_reward, record_incident
from tests.rewards_simulation.cluster import Fault, SimulatedCluster, SimulatedPod, SimulationSettings
from tests.rewards_simulation.run import StrategyRun, run_strategy
from tests.rewards_simulation.strategies import STRATEGIES

SHORT = SimulationSettings(placements=200, settle=20, window=80, join_settle=20)
SEVERAL_TYPES = SimulationSettings(types=6, placements=300, settle=20, window=80, join_settle=20)


def test_ours_pays_for_finding_out_and_little_more() -> None:
    found = {
        name: [run_strategy(name, SHORT, seed) for seed in range(2)] for name in ("leadsman", "spreading", "oracle")
    }
    before = {name: sum(each.failures_per_1000 for each in results) for name, results in found.items()}
    after = {name: sum(each.failures_per_1000_after_move for each in results) for name, results in found.items()}
    assert before["oracle"] <= before["leadsman"] < before["spreading"] / 3
    assert after["oracle"] <= after["leadsman"] < after["spreading"] / 3


def test_a_node_that_joins_gets_its_share_from_ours_and_none_from_kuberls_rule() -> None:
    settings = structs.replace(SHORT, placements=100, window=400)
    assert run_strategy("kuberl", settings, 1).joined_share_of_fair == 0.0
    assert median(run_strategy("leadsman", settings, seed).joined_share_of_fair for seed in range(3)) > 0.7


@pytest.mark.parametrize("fault", [Fault.NODES, Fault.RACKS])
def test_a_failure_of_one_type_warns_the_others_as_kuberls_rule_does_not(fault: Fault) -> None:
    settings = structs.replace(SEVERAL_TYPES, fault=fault)
    found = {name: [run_strategy(name, settings, seed) for seed in range(2)] for name in ("leadsman", "kuberl")}
    before = {name: sum(each.failures_per_1000 for each in results) for name, results in found.items()}
    assert before["leadsman"] < 0.8 * before["kuberl"]


def test_slow_nodes_are_avoided() -> None:
    settings = structs.replace(SHORT, fault=Fault.SLOW)
    found = {name: run_strategy(name, settings, 1).failures_per_1000 for name in ("leadsman", "spreading")}
    assert found["leadsman"] < found["spreading"] / 2


class OneFailure(SimulatedCluster):
    """A healthy cluster in which no pod fails but the next one after `due` is set."""

    due, failed = False, 0

    def fails(self, pod: SimulatedPod, node: str) -> bool:
        fails, self.due = self.due, False
        self.failed += fails
        return fails


def test_a_chance_failure_in_a_healthy_cluster_changes_no_share_of_five_hours_by_more_than_a_quarter() -> None:
    world = OneFailure(SimulationSettings(nodes=8, bad=0, interval_seconds=30.0), 1)
    run = StrategyRun(world, STRATEGIES["leadsman"](world, 1))
    run.place_pods(24)
    world.due = True
    placed = run.place_pods(600).placed
    shares = [placed[node] / 600 * len(world.nodes) for node in world.nodes]
    assert (world.failed, min(shares) > 0.75, max(shares) < 1.25) == (1, True, True)


# kubeRL's rule, as documented.

T0 = 1_700_000_000.0


def crashed(events: int, every_seconds: float) -> float:
    reward = new_reward(T0)
    for event in range(events):
        reward = record_incident(reward, IncidentCause.CRASH, T0 + event * every_seconds)
    return reward.kuberl


@pytest.mark.parametrize(
    ("events", "score"), [(1, 9), (2, 8), (3, 7), (5, 6), (7, 5), (10, 3), (15, 2), (22, 1)]
)  # fmt: skip
def test_the_documented_sequence_of_crashes(events: int, score: int) -> None:
    reward = crashed(events, 10.0)
    assert kuberl.score(reward) == score
    assert reward == pytest.approx(0.95 * 0.9 ** (events - 1), abs=1e-6)


def test_a_restart_after_more_than_mttf_counts_half_whatever_the_second_of_the_minute() -> None:
    """kubeRL compared seconds of the minute, so that 660 s were none."""
    assert crashed(2, 660.0) == pytest.approx(0.9 * 0.95 + 0.05, abs=1e-6)
    assert crashed(2, 600.0) == pytest.approx(0.9 * 0.95, abs=1e-6)


def test_a_failed_phase_counts_nothing_however_long_it_took() -> None:
    assert record_incident(new_reward(T0), IncidentCause.FAILED_PHASE, T0).kuberl == pytest.approx(0.9, abs=1e-6)


def test_running_is_earned_once_a_stretch() -> None:
    low = record_incident(new_reward(T0), IncidentCause.CRASH, T0)
    reward = low
    for age in range(0, 1_200, 10):
        reward = credit_health(reward, age, age + 10, T0 + age + 10)
    assert reward.kuberl == pytest.approx(1 - 0.05 * 0.9**2, abs=1e-6)
