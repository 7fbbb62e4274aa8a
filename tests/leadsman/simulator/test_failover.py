"""Deaths in simulated clusters: what is promised of times, and that nothing goes to the dead."""

import pytest

from leadsman.planning.failover.model import NodeHealth
from leadsman.simulator.failover.run import FailoverSimulation

BOUND_WITHIN_SECONDS, WITH_LEADER_SECONDS = 30.0, 35.0


@pytest.fixture(scope="module")
def world() -> FailoverSimulation:
    return FailoverSimulation(30, pods=10, seed=1)


@pytest.mark.parametrize(("with_leader", "most_seconds"), [(False, BOUND_WITHIN_SECONDS), (True, WITH_LEADER_SECONDS)])
def test_the_pods_of_a_dead_node_are_bound_elsewhere_in_time(
    world: FailoverSimulation, with_leader: bool, most_seconds: float
) -> None:
    death = world.death(with_leader=with_leader)
    assert death.pods > 0
    assert death.detected is not None
    assert death.decided is not None
    assert death.bound is not None
    assert death.detected < death.decided < death.bound <= most_seconds
    assert death.bound_to_dead == 0


def test_without_the_extender_the_taint_keeps_replacements_off_the_dead_node(world: FailoverSimulation) -> None:
    death = world.death(extender_answers=False)
    assert death.bound is not None
    assert death.bound_to_dead == 0


def test_the_next_leader_acts_only_once_it_can_have_the_lease(world: FailoverSimulation) -> None:
    death = world.death(with_leader=True)
    assert death.decided is not None
    assert death.decided >= 15.0


def test_a_node_that_is_back_is_healthy_again(world: FailoverSimulation) -> None:
    death = world.death()
    assert death.verdict is NodeHealth.DEAD
    assert {verdict.state for verdict in world.health.verdicts.values()} == {NodeHealth.HEALTHY}
    assert world.control_plane.state.dead == {}


@pytest.mark.slow
def test_past_1000_nodes_agents_report_less_often_and_a_death_is_seen_later() -> None:
    world = FailoverSimulation(1_100, pods=20, seed=1)
    assert world.agents.timing.push_interval_seconds == 10.0
    detected = world.death().detected
    assert detected is not None
    assert detected > 13.0
