"""Rewards beside kubeRL's rule on short runs. `python -m benchmarks.rewards` has the numbers, of many seeds."""

from statistics import median

import pytest
from msgspec import structs

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
