"""The cluster that does not exist."""

from typing import Any

import pytest

from leadsman.simulator.rewards.cluster import Fault, SimulatedCluster, SimulationSettings


def world(seed: int = 1, **settings: Any) -> SimulatedCluster:
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
    assert [world(seed=3).draw_pod() for _ in range(5)] == [world(seed=3).draw_pod() for _ in range(5)]
    one, other = world(seed=3), world(seed=3)
    one.choose_node(dict.fromkeys(one.nodes, 0.0))
    assert one.draw_pod() == other.draw_pod()


def test_a_pod_that_fails_elsewhere_would_fail_on_a_bad_node_too() -> None:
    here = world()
    bad, sound = min(here.bad), min(set(here.nodes) - here.bad)
    found = {(here.fails(pod, bad), here.fails(pod, sound)) for pod in (here.draw_pod() for _ in range(2_000))}
    assert found == {(False, False), (True, False), (True, True)}


def test_a_fault_of_racks_meets_whole_racks() -> None:
    here = world(fault=Fault.RACKS)
    for _ in range(2):
        racks = {here.racks[node] for node in here.bad}
        assert here.bad == {node for node in here.nodes if here.racks[node] in racks}
        here.move_faults()


def test_on_a_slow_node_pods_take_longer_and_fail_no_more_often() -> None:
    here = world(fault=Fault.SLOW)
    bad, sound = min(here.bad), min(set(here.nodes) - here.bad)
    pods = [here.draw_pod() for _ in range(500)]
    assert (here.is_slow(bad), here.is_slow(sound)) == (True, False)
    assert [here.fails(pod, bad) for pod in pods] == [here.fails(pod, sound) for pod in pods]


def test_a_bad_type_fails_on_every_node_and_no_other_type_does() -> None:
    here = world(types=4, bad_types=1, failures_of_bad_types_ratio=1.0, failures_elsewhere_ratio=0.0)
    sound = set(here.nodes) - here.bad
    pods = [here.draw_pod() for _ in range(100)]
    assert {pod.type for pod in pods} == {"type-0", "type-1", "type-2", "type-3"}
    assert all(here.fails(pod, node) is (pod.type == "type-0") for pod in pods for node in sound)


def test_racks_must_divide_the_nodes_that_are_bad() -> None:
    with pytest.raises(ValueError, match=r"rack-nodes 3: want a divisor of nodes \(20\) and of bad \(4\)"):
        SimulationSettings(fault=Fault.RACKS, rack_nodes=3)


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
