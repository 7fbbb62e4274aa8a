"""Every plan passes the check that judges placements and failures by themselves."""

import pytest
from msgspec.structs import replace

from leadsman.planning.backups.model import BackupSettings
from leadsman.planning.optimise.answer import OptimisedPlan, broken, plan_of_choices
from leadsman.planning.optimise.cluster_problem import ClusterProblem, model_cluster
from leadsman.planning.optimise.greedy import balanced, greedy_choices
from leadsman.planning.optimise.problem import score
from leadsman.planning.situation import Situation
from tests.leadsman.planning.backups.random_clusters import RACK_LABEL, Case, random_case
from tests.leadsman.planning.optimise.node_bound_cases import node_bound_case

SETTINGS = BackupSettings(rack_label=RACK_LABEL)


def greedy_plan(case: Case) -> tuple[ClusterProblem, OptimisedPlan]:
    modelled = model_cluster(Situation(*case), SETTINGS)
    choices = balanced(modelled.problem, greedy_choices(modelled.problem, modelled.start))
    return modelled, plan_of_choices(modelled, choices)


@pytest.mark.parametrize("first_seed", range(0, 120, 40))
def test_no_greedy_plan_of_random_clusters_breaks_anything(first_seed: int) -> None:
    chosen = 0
    for seed in range(first_seed, first_seed + 40):
        for case in (random_case(seed), node_bound_case(seed)):
            modelled, plan = greedy_plan(case)
            assert not broken(plan, modelled.uids, SETTINGS), f"seed {seed}"
            chosen += len(modelled.uids)
    assert chosen > 200


def test_the_check_sees_a_backup_on_the_place_itself() -> None:
    modelled, plan = greedy_plan(node_bound_case(3))
    uid, backup = next(iter(plan.backups.backups.items()))
    wrong = {**plan.backups.pods, uid: replace(backup, node=plan.situation.cluster.pods[uid].node)}
    assert uid in broken(replace(plan, backups=replace(plan.backups, pods=wrong)), modelled.uids, SETTINGS)


def test_the_check_sees_a_reserve_that_is_too_small() -> None:
    modelled, plan = greedy_plan(node_bound_case(3))
    none = dict.fromkeys(plan.backups.reserves, next(iter(plan.backups.reserves.values())).__class__())
    assert broken(replace(plan, backups=replace(plan.backups, reserves=none)), modelled.uids, SETTINGS)


def test_a_plan_says_what_the_score_counts() -> None:
    for seed in range(20):
        modelled = model_cluster(Situation(*node_bound_case(seed)), SETTINGS)
        choices = greedy_choices(modelled.problem, modelled.start)
        at, plan = score(modelled.problem, choices), plan_of_choices(modelled, choices)
        assert at is not None
        assert at.unplaced == len(plan.unplaced)
        homes = [pod.home for pod in modelled.problem.pods]
        assert at.moves == sum(home not in (-1, choice.place) for home, choice in zip(homes, choices, strict=True))
