"""The search, with the real solver."""

import time
from itertools import product

import pytest

pytest.importorskip("ortools", reason="needs leadsman[plan]")

import numpy as np

from leadsman.planning.backups.backup_plan import BackupScope, BackupSettings, FailureDomain
from leadsman.planning.backups.reserve import Room
from leadsman.planning.optimise.choices import Choice, Ended, Found, PodOptions, Problem, Score, greedy_choices, score
from leadsman.planning.optimise.cluster_problem import ClusterProblem, model_cluster
from leadsman.planning.optimise.optimised_plan import broken, plan_of_choices
from leadsman.planning.situation import Situation
from leadsman.simulator import solver
from leadsman.simulator.solver.search import relaxed_reserve, search
from tests.leadsman.planning.backups.random_clusters import RACK_LABEL, node_bound_case

SETTINGS = BackupSettings(rack_label=RACK_LABEL)


def searched(modelled: ClusterProblem, work: float = 2.0) -> Found:
    start = greedy_choices(modelled.problem, modelled.start)
    return search(modelled.problem, start, 1, work, 300.0, lambda _: None)


def best_of_all(problem: Problem) -> Score:
    """By trying every combination."""
    every = product(*(list(problem.options(pod)) for pod in problem.pods))
    return min(found for found in (score(problem, choices) for choices in every) if found is not None)


@pytest.mark.parametrize("seed", range(6))
def test_small_clusters_are_solved_as_well_as_by_trying_everything(seed: int) -> None:
    modelled = model_cluster(Situation(*node_bound_case(seed, nodes=4, pods=4)), SETTINGS)
    found = searched(modelled)
    assert found.ended is Ended.PROVEN
    assert found.score == best_of_all(modelled.problem)
    assert found.reserved_bound == found.score.reserved


@pytest.mark.parametrize("seed", range(20, 24))
def test_a_searched_plan_breaks_nothing_and_is_no_worse_than_the_greedy_one(seed: int) -> None:
    modelled = model_cluster(Situation(*node_bound_case(seed, nodes=10, pods=24)), SETTINGS)
    found = searched(modelled, 0.3)
    greedy = score(modelled.problem, greedy_choices(modelled.problem, modelled.start))
    assert greedy is not None
    assert found.score <= greedy
    assert found.reserved_bound <= found.score.reserved
    assert not broken(plan_of_choices(modelled, found.choices), modelled.uids, SETTINGS)


@pytest.mark.parametrize("seed", range(6, 12))
def test_the_relaxation_is_a_bound_for_plans_that_place_and_cover_as_many_pods(seed: int) -> None:
    modelled = model_cluster(Situation(*node_bound_case(seed, nodes=4, pods=4)), SETTINGS)
    problem, start = modelled.problem, greedy_choices(modelled.problem, modelled.start)
    best = best_of_all(problem)
    assert 0 < relaxed_reserve(problem, start, best, 60.0) <= best.reserved


def test_a_pod_that_a_relaxation_spreads_over_places_is_reserved_for_as_a_whole() -> None:
    pod = PodOptions((4,), None, False, (0, 1, 2), (0, 1, 2), 1)
    domains = tuple((FailureDomain(BackupScope.NODE, name), None, None) for name in "abc")
    room = Room(("a", "b", "c"), ("memory",), np.full((3, 1), 9, np.int64), domains)
    problem = Problem(room, units=(1,), weights=(1,), pods=(pod,))
    start = (Choice(0, 1),)
    at = score(problem, start)
    assert at is not None
    assert relaxed_reserve(problem, start, at, 60.0) == 4


def test_requests_that_share_too_small_a_unit_are_not_searched_and_it_says_so() -> None:
    pod = PodOptions((1 << 40,), None, False, (0,), (1,), 1)
    domains = tuple((FailureDomain(BackupScope.NODE, name), None, None) for name in "ab")
    room = Room(("a", "b"), ("memory",), np.full((2, 1), 1 << 50, np.int64), domains)
    problem = Problem(room, units=(1,), weights=(1000,), pods=(pod,) * 100)
    start = (Choice(0, None),) * 100
    found = solver.optimise(problem, start, 1, 1.0, 60.0, lambda _: None)
    assert (found.choices, found.ended) == (start, Ended.TOO_FINE)


def test_more_work_never_gives_a_worse_plan_and_the_same_work_the_same() -> None:
    """A longer search takes the steps of a shorter one, but for the last that its end cuts short."""
    modelled = model_cluster(Situation(*node_bound_case(2, nodes=8, pods=40, placed_ratio=0.2)), SETTINGS)
    start = greedy_choices(modelled.problem, modelled.start)

    def told(work: float) -> list[Found]:
        found = list[Found]()
        found.append(search(modelled.problem, start, 1, work, 300.0, found.append))
        return found

    shorter, longer = told(0.3), told(0.5)
    assert longer[-1].score <= shorter[-1].score
    assert len(shorter) > 2
    assert longer[: len(shorter) - 1] == shorter[:-1]
    assert told(0.3) == shorter


def test_a_search_that_does_not_end_is_ended_with_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    modelled = model_cluster(Situation(*node_bound_case(5, nodes=4, pods=4)), SETTINGS)
    start = greedy_choices(modelled.problem, modelled.start)

    def endless(*_: object) -> None:
        ends_at = time.monotonic() + 20
        while time.monotonic() < ends_at:
            pass

    monkeypatch.setattr("leadsman.simulator.solver.search.search", endless)
    found = solver.optimise(modelled.problem, start, 1, 1.0, 0.1, lambda _: None)
    assert (found.choices, found.ended) == (start, Ended.SECONDS)
