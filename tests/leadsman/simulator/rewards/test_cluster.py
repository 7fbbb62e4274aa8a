"""The cluster that does not exist."""

import pytest

from leadsman.simulator.rewards.cluster import SimulatedCluster, SimulationSettings


def world(seed: int = 1, **settings: int) -> SimulatedCluster:
    return SimulatedCluster(SimulationSettings(**settings), seed)


def test_faults_move_to_other_nodes() -> None:
    here = world()
    before = set(here.bad)
    here.move_faults()
    assert (len(before), len(here.bad), before & here.bad) == (4, 4, set())


def test_half_of_the_bad_nodes_are_repaired() -> None:
    here = world()
    here.repair_nodes()
    assert (len(here.repaired), len(here.bad), here.repaired & here.bad) == (2, 2, set())


def test_luck_is_the_same_for_everyone() -> None:
    assert [world(seed=3).draw_failures() for _ in range(5)] == [world(seed=3).draw_failures() for _ in range(5)]
    one, other = world(seed=3), world(seed=3)
    one.choose_node(dict.fromkeys(one.nodes, 0.0))
    assert one.draw_failures() == other.draw_failures()


def test_a_pod_that_fails_elsewhere_would_fail_on_a_bad_node_too() -> None:
    here = world()
    found = {here.draw_failures() for _ in range(2_000)}
    assert (False, True) not in found
    assert found == {(False, False), (True, False), (True, True)}


def test_the_best_score_is_taken_and_among_equals_the_fewest_pods() -> None:
    here = world()
    scores = dict.fromkeys(here.nodes, 1.0) | {"node-03": 5.0, "node-04": 5.0}
    here.running["node-03"] = 1
    assert here.choose_node(scores) == "node-04"


def test_the_fair_share_is_of_the_sound_nodes() -> None:
    here = world()
    assert here.fair_share == 1 / 16
    here.add_node()
    assert here.fair_share == 1 / 17


@pytest.mark.parametrize(("nodes", "bad"), [(20, 11), (20, 0), (1, 1)])
def test_faults_must_be_able_to_move(nodes: int, bad: int) -> None:
    with pytest.raises(ValueError, match=f"bad {bad}: want 1 to half of nodes"):
        SimulationSettings(nodes=nodes, bad=bad)
