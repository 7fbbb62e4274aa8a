"""After one move every backup holds, by the code that judges failures, though few of them are asked about again."""

import random
from collections.abc import Iterator

import pytest

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import ZERO
from leadsman.cluster.scheduling import refusals
from leadsman.decision.inputs import DecisionInputs
from leadsman.planning.backups.backup_plan import BackupPlan, BackupSettings, broken_promises
from leadsman.planning.backups.planner import plan_after_move, plan_backups
from leadsman.planning.situation import Situation, with_workloads_of
from tests.leadsman.planning.backups.random_clusters import RACK_LABEL, random_case

SETTINGS = BackupSettings(rack_label=RACK_LABEL)


def moves(seed: int, *, constrained: bool = True) -> Iterator[tuple[BackupPlan, ClusterPod, Cluster, DecisionInputs]]:
    """A few moves one after another, each to a node with room beside what is reserved: the plan before, the pod where
    it is then, the cluster and its inputs."""
    cluster, inputs = random_case(seed, nodes=8, pods=20, constrained=constrained)
    plan, rng = plan_backups(Situation(cluster, inputs), SETTINGS), random.Random(seed)
    for _ in range(4):
        pod, node = cluster.pods[rng.choice(sorted(cluster.pods))], rng.choice(sorted(cluster.nodes))
        reserve = plan.reserves.get(node, ZERO)
        if node == pod.node or refusals(cluster, pod, node) or not pod.requests.fits(cluster.free(node) - reserve):
            continue
        cluster = cluster.with_pod(pod, node)
        inputs = with_workloads_of(cluster, inputs)
        yield plan, cluster.pods[pod.uid], cluster, inputs
        plan = plan_after_move(plan, cluster.pods[pod.uid], Situation(cluster, inputs), SETTINGS)


@pytest.mark.parametrize("seed", range(60))
def test_no_failure_loses_a_pod_that_is_covered_after_a_move(seed: int) -> None:
    for before, moved, cluster, inputs in moves(seed):
        plan = plan_after_move(before, moved, Situation(cluster, inputs), SETTINGS)
        assert not broken_promises(Situation(cluster, inputs), plan, RACK_LABEL)
