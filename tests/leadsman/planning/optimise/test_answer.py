"""Every plan passes the check that judges placements and failures by themselves."""

from math import isqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.cluster.model import ClusterNode, ClusterPod, cluster_of
from leadsman.cluster.resources import Resources
from leadsman.planning.backups.backup_plan import BackupScope, BackupSettings, FailureDomain
from leadsman.planning.backups.reserve import Room
from leadsman.planning.optimise.choices import NO_NODE, Choice, PodOptions, Problem, greedy_choices
from leadsman.planning.optimise.cluster_problem import (
    LEAST_NODES,
    MAX_OPTIONS,
    ClusterProblem,
    model_cluster,
    restricted,
)
from leadsman.planning.optimise.optimised_plan import OptimisedPlan, broken, plan_of_choices
from leadsman.planning.situation import Situation
from tests.leadsman.planning.backups.random_clusters import RACK_LABEL, inputs_of, node_bound_case, random_case
from tests.leadsman.planning.moves.movable_pods import owned_pod

SETTINGS = BackupSettings(rack_label=RACK_LABEL)


@pytest.mark.parametrize("first_seed", range(0, 120, 40))
def test_no_greedy_plan_of_random_clusters_breaks_anything(first_seed: int) -> None:
    chosen = 0
    for seed in range(first_seed, first_seed + 40):
        for case in (random_case(seed), node_bound_case(seed)):
            modelled = model_cluster(Situation(*case), SETTINGS)
            plan = plan_of_choices(modelled, greedy_choices(modelled.problem, modelled.start))
            assert not broken(plan, modelled.uids, SETTINGS), f"seed {seed}"
            chosen += len(modelled.uids)
    assert chosen > 200


def bounded_pod(name: str, gib: int, where: str = "", **more: Any) -> ClusterPod:
    return owned_pod(name, where, Resources(100, gib << 30, 1), labels={"delay_a": "5"}, **more)


def problem_with(*pods: ClusterPod) -> ClusterProblem:
    """Nodes of 8 GiB; b is 1 ms from a, and the others are far."""
    size = Resources(4000, 8 << 30, 20)
    cluster = cluster_of([ClusterNode(name, name, allocatable=size, ready=True) for name in "abc"], pods)
    matrix = {"a": {"a": 0.1, "b": 1.0, "c": 50.0}}
    return model_cluster(Situation(cluster, inputs_of(cluster, matrix)), SETTINGS)


def plan_of(*pods: ClusterPod) -> OptimisedPlan:
    modelled = problem_with(*pods)
    return plan_of_choices(modelled, greedy_choices(modelled.problem, modelled.start))


def test_a_pod_too_large_for_the_nodes_in_its_bounds_says_memory() -> None:
    assert plan_of(bounded_pod("big", 20)).unplaced == {"big": "2 too little memory is free, 1 delay to a over 5 ms"}


def test_a_missing_backup_says_bound_room_or_an_unknown_rack_by_count() -> None:
    plan = plan_of(bounded_pod("one", 6, "a"), bounded_pod("two", 6, "b"))
    reasons = dict(plan.backups.uncovered)
    assert reasons["one"] == "1 delay to a over 5 ms, 1 in the node that fails, 1 too little memory is free"
    rack = {"leadsman.dev/backup": "rack"}
    plan = plan_of(bounded_pod("one", 1, "a", annotations=rack))
    assert dict(plan.backups.uncovered)["one"].startswith("the rack of node a is unknown")


@pytest.mark.parametrize(("owner_kind", "places"), [("ReplicaSet", "abc"), ("Job", "c"), ("GameServer", "c")])
def test_a_pod_may_leave_its_node_only_if_pods_of_its_owner_are_ever_moved(owner_kind: str, places: str) -> None:
    problem = problem_with(bounded_pod("far", 1, "c", owner_kind=owner_kind)).problem
    assert "".join(problem.room.nodes[each] for each in problem.pods[0].places) == places


# Pods with very many options choose among fewer, among which are those that they have.


def problem_of(nodes: int, pods: list[PodOptions]) -> Problem:
    names = tuple(f"node-{number}" for number in range(nodes))
    free = np.array([[100 - number % 7] for number in range(nodes)], np.int64)
    domains = tuple((FailureDomain(BackupScope.NODE, name), None, None) for name in names)
    return Problem(Room(names, ("memory",), free, domains), units=(1,), weights=(1,), pods=tuple(pods))


@given(st.integers(2, 300), st.integers(1, 60), st.data())
def test_what_a_pod_has_stays_possible_and_all_options_are_few(nodes: int, pods: int, data: st.DataObject) -> None:
    node = st.none() | st.integers(0, nodes - 1)
    homes = data.draw(st.lists(node, min_size=pods, max_size=pods))
    start = tuple(NO_NODE if home is None else Choice(home, data.draw(node)) for home in homes)
    everywhere = tuple(range(nodes))
    whole = problem_of(nodes, [PodOptions((1,), home, True, everywhere, everywhere, 1) for home in homes])
    smaller, cut = restricted(whole, start)
    most = max(LEAST_NODES, isqrt(MAX_OPTIONS // pods))
    assert cut == (pods if nodes**2 > most**2 else 0)
    for before, pod, has in zip(whole.pods, smaller.pods, start, strict=True):
        assert set(pod.places) <= set(before.places)
        assert set(pod.backups) <= set(before.backups)
        assert {has.place} - {None} <= set(pod.places)
        assert {has.backup} - {None} <= set(pod.backups)
        assert len(pod.places) * len(pod.backups) <= max(most**2, LEAST_NODES**2)
    again, _ = restricted(whole, start)
    assert again.pods == smaller.pods
