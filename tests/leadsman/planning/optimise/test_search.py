"""A search with a solver of the test's own: what holds whatever the solver finds."""

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from leadsman.planning.backups.backup_plan import BackupSettings
from leadsman.planning.optimise.choices import Choices, Problem, Score, greedy_choices, score
from leadsman.planning.optimise.cluster_problem import model_cluster
from leadsman.planning.optimise.search import Found, Solved, search
from leadsman.planning.situation import Situation
from tests.leadsman.planning.backups.random_clusters import RACK_LABEL
from tests.leadsman.planning.optimise.node_bound_cases import node_bound_case

STEP = 0.001


def tries(problem: Problem, choices: Choices, pods: Sequence[int], work: float) -> Solved:
    """A solver that tries choices by chance, one for each bit of work: more of it finds what less does."""
    if len(pods) == len(problem.pods):
        return Solved(choices, False, 0.0, work)  # so many pods at once are too hard for it
    rng, best = random.Random(repr((choices, list(pods)))), choices
    at = score(problem, best)
    for _ in range(int(work / STEP)):
        number = rng.choice(list(pods))
        other = (*best[:number], rng.choice(list(problem.options(problem.pods[number]))), *best[number + 1 :])
        found = score(problem, other)
        if found is not None and (at is None or found[:4] < at[:4]):
            best, at = other, found
    return Solved(best, False, 0.0, work)


@pytest.mark.parametrize("seed", range(12))
def test_more_work_never_gives_a_worse_plan(seed: int) -> None:
    case = node_bound_case(seed, nodes=10, pods=60, placed_ratio=0.2)
    modelled = model_cluster(Situation(*case), BackupSettings(rack_label=RACK_LABEL))
    start = greedy_choices(modelled.problem, modelled.start)

    def searched(work: float) -> tuple[Score, list[Found]]:
        told = list[Found]()
        rng = np.random.default_rng(seed)
        found = search(modelled.problem, start, tries, lambda *_: 0, work, rng, lambda: False, told.append)
        return found.score, told

    scores = list[Score]()
    for work in (0.1, 0.3, 0.5, 1.0, 2.0, 4.0):
        at, told = searched(work)
        scores.append(at)
        assert told[-1].score[:4] == at[:4], "what was told last is what is known when the time is up"
    assert all(later[:4] <= earlier[:4] for earlier, later in pairwise(scores))
