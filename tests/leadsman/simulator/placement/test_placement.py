"""Policies on clusters whose outcome can be seen by eye."""

import numpy as np
import pytest

from leadsman.cluster.model import Cluster, ClusterNode, ClusterPod, cluster_of
from leadsman.cluster.resources import Resources
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy
from leadsman.planning.backups.backup_plan import Backup, BackupPlan, BackupScope, BackupSettings, FailureDomain
from leadsman.simulator.edge_rule import EdgeRule
from leadsman.simulator.outcome import lost_on_failure, outcome_of
from leadsman.simulator.placements import Online, Placement
from leadsman.simulator.placements import Policy as PlacementPolicy
from leadsman.sources.delay.matrix import DelayMatrix
from leadsman.state.snapshot import Snapshot
from tests.leadsman.planning.moves.movable_pods import GIB, owned_pod
from tests.leadsman.planning.test_proposals import cards

NAMES, LINE_MS = ("a", "b", "c"), np.array([[0.0, 5.0, 9.0], [5.0, 0.0, 5.0], [9.0, 5.0, 0.0]])
NODE = FailureDomain(BackupScope.NODE, "a")


def waiting(name: str, memory_gib: int, bound: str, ms: str = "5") -> ClusterPod:
    return owned_pod(name, "", Resources(memory_bytes=memory_gib * GIB, pods=1), labels={f"delay_{bound}": ms})


def line(*pods: ClusterPod) -> tuple[Cluster, DecisionInputs]:
    """Nodes a, b and c of 8 GiB, 5 ms from one to the next."""
    size = Resources(memory_bytes=8 * GIB, pods=110)
    cluster = cluster_of([ClusterNode(name, allocatable=size, ready=True) for name in NAMES], pods)
    delays = DelayMatrix({name: number for number, name in enumerate(NAMES)}, LINE_MS)
    return cluster, DecisionInputs(Snapshot(), Policy(), 0.0, delay_views=(delays,))


@pytest.mark.parametrize("policy", [Online(BackupSettings(), batch=1), EdgeRule(clustering=False)], ids=type)
def test_one_pod_is_moved_to_make_room_and_a_placeholder_is_shared(policy: PlacementPolicy) -> None:
    cluster, inputs = line(waiting("first", 6, "a", "9"), waiting("second", 6, "a", "1"))
    placement = policy(cluster, inputs)
    nodes = {uid: pod.node for uid, pod in placement.cluster.pods.items()}
    assert (nodes["second"], nodes["first"] in ("b", "c"), placement.moves) == ("a", True, 1)
    cluster, inputs = line(waiting("left", 6, "a", "5"), waiting("right", 6, "c", "5"))
    outcome = outcome_of("", policy(cluster, inputs), cluster, 0.0)
    assert (outcome.accepted, outcome.reserved_bytes, outcome.falling, outcome.lost) == (2, 6 * GIB, 2, 0)


def test_no_card_is_given_to_more_pods_than_it_has_memory_for() -> None:
    cluster, _ = cards(("x", ""), ("y", ""), ("z", ""))
    placement = Online(BackupSettings(), batch=9)(cluster, DecisionInputs(Snapshot(), Policy(), 0.0))
    assert sorted(pod.node for pod in placement.cluster.pods.values()) == ["", "a", "b"]


def test_clusters_leave_out_a_node_within_the_bound_that_is_far_from_another_one() -> None:
    cluster, inputs = line(*(waiting(f"pod-{number}", 4, "b") for number in range(3)))
    accepted = [
        outcome_of("", EdgeRule(clustering=clustering)(cluster, inputs), cluster, 0.0).accepted
        for clustering in (False, True)
    ]
    assert accepted == [3, 2]


def test_a_pod_whose_backup_reserves_too_little_is_lost() -> None:
    cluster, inputs = line(waiting("pod", 2, "a", "9"))
    cluster = cluster.with_pod(cluster.pods["pod"], "a")
    for reserved_gib, lost in ((2, set[str]()), (1, {"pod"})):
        plan = BackupPlan({"pod": Backup("b", (NODE,))}, {"b": Resources(memory_bytes=reserved_gib * GIB, pods=1)})
        assert lost_on_failure(Placement(cluster, inputs, plan), "a", {"pod"}) == lost
    assert lost_on_failure(Placement(cluster, inputs), "a", {"pod"}) == {"pod"}
