"""The search with the real solver, in its own process."""

import time
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("ortools", reason="needs leadsman[plan]")

import numpy as np

from leadsman.planning.backups.backup_plan import BackupScope, BackupSettings, FailureDomain
from leadsman.planning.backups.reserve import Room
from leadsman.planning.optimise.choices import Choice, PodOptions, Problem, Score, greedy_choices, score
from leadsman.planning.optimise.cluster_problem import ClusterProblem, model_cluster
from leadsman.planning.optimise.optimised_plan import broken, plan_of_choices
from leadsman.planning.optimise.search import Ended, Found
from leadsman.planning.situation import Situation
from leadsman.simulator.solver import process
from leadsman.simulator.solver.child import Relaxation
from leadsman.simulator.solver.process import Job, encode
from tests.leadsman.planning.backups.random_clusters import RACK_LABEL
from tests.leadsman.planning.optimise.node_bound_cases import node_bound_case

SETTINGS = BackupSettings(rack_label=RACK_LABEL)


def searched(modelled: ClusterProblem, work: float = 2.0, seed: int = 1) -> Found:
    start = greedy_choices(modelled.problem, modelled.start)
    return process.run(Job(modelled.problem, start, seed, work, 300.0))


def best_of_all(problem: Problem) -> Score:
    """By trying every combination."""
    every = product(*(list(problem.options(pod)) for pod in problem.pods))
    return min(found for found in (score(problem, choices) for choices in every) if found is not None)


@pytest.mark.parametrize("seed", range(6))
def test_small_clusters_are_solved_as_well_as_by_trying_everything(seed: int) -> None:
    modelled = model_cluster(Situation(*node_bound_case(seed, nodes=4, pods=4)), SETTINGS)
    found = searched(modelled)
    assert found.ended is Ended.PROVEN
    assert found.score[:4] == best_of_all(modelled.problem)[:4]
    assert found.reserved_bound == found.score.reserved


@pytest.mark.parametrize("seed", range(20, 24))
def test_a_searched_plan_breaks_nothing_and_is_no_worse_than_the_greedy_one(seed: int) -> None:
    modelled = model_cluster(Situation(*node_bound_case(seed, nodes=10, pods=24)), SETTINGS)
    found = searched(modelled, 0.3)
    greedy = score(modelled.problem, greedy_choices(modelled.problem, modelled.start))
    assert greedy is not None
    assert found.score[:4] <= greedy[:4]
    assert found.reserved_bound <= found.score.reserved
    assert not broken(plan_of_choices(modelled, found.choices), modelled.uids, SETTINGS)


@pytest.mark.parametrize("seed", range(6, 12))
def test_the_relaxation_is_a_bound_for_plans_that_place_and_cover_as_many_pods(seed: int) -> None:
    modelled = model_cluster(Situation(*node_bound_case(seed, nodes=4, pods=4)), SETTINGS)
    problem, start = modelled.problem, greedy_choices(modelled.problem, modelled.start)
    best = best_of_all(problem)
    assert 0 < Relaxation(lambda: 60.0)(problem, start, best) <= best.reserved


def test_a_pod_that_a_relaxation_spreads_over_places_is_reserved_for_as_a_whole() -> None:
    pod = PodOptions((4,), None, False, (0, 1, 2), (0, 1, 2), 1)
    domains = tuple((FailureDomain(BackupScope.NODE, name), None, None) for name in "abc")
    room = Room(("a", "b", "c"), ("memory",), np.full((3, 1), 9, np.int64), domains)
    problem = Problem(room, units=(1,), weights=(1,), pods=(pod,))
    start = (Choice(0, 1),)
    at = score(problem, start)
    assert at is not None
    assert Relaxation(lambda: 60.0)(problem, start, at) == 4


def test_the_same_seed_and_work_give_the_same_bytes() -> None:
    modelled = model_cluster(Situation(*node_bound_case(5, nodes=12, pods=40)), SETTINGS)
    first, second = searched(modelled, 0.2), searched(modelled, 0.2)
    assert first.ended is Ended.WORK
    assert encode(first) == encode(second)


def test_seconds_end_a_search_that_has_work_left() -> None:
    modelled = model_cluster(Situation(*node_bound_case(5, nodes=12, pods=40)), SETTINGS)
    start = greedy_choices(modelled.problem, modelled.start)
    found = process.run(Job(modelled.problem, start, 1, 1e6, 0.5))
    assert found.ended is Ended.SECONDS


def test_a_solver_that_does_not_end_is_ended_with_the_best_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = tmp_path / "ortools"
    hung.mkdir()
    (hung / "__init__.py").write_text("import time\ntime.sleep(20)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    modelled = model_cluster(Situation(*node_bound_case(5, nodes=4, pods=4)), SETTINGS)
    start = greedy_choices(modelled.problem, modelled.start)
    began = time.monotonic()
    found = process.run(Job(modelled.problem, start, 1, 1.0, 0.5))
    assert (found.choices, found.ended) == (start, Ended.SECONDS)
    assert time.monotonic() - began < 15
