"""Nodes that are emptied ahead of maintenance, and what keeps them from being empty."""

from typing import Any

import pytest

from leadsman.cluster.model import Cluster, cluster_of
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.planning.backups.backup_plan import BackupSettings
from leadsman.planning.moves.drain import DrainPlan, plan_drain
from leadsman.planning.situation import Situation
from leadsman.published.move_plan import PlanOrigin
from tests.leadsman.planning.backups.random_clusters import RACK_LABEL, inputs_of, random_case

GIB = 2**30
MATRIX = {
    a: dict(zip("abcd", row, strict=True))
    for a, row in zip("abcd", ((0, 2, 4, 40), (2, 0, 3, 40), (4, 3, 0, 40), (40, 40, 40, 0)), strict=True)
}


def node(name: str, gib: int = 8) -> ClusterNode:
    return ClusterNode(name, f"uid-{name}", allocatable=Resources(8000, gib * GIB, 110), ready=True)


def pod(name: str, where: str, gib: int = 2, **more: Any) -> ClusterPod:
    owner = {"workload": f"deployment/{name}", "owner_kind": "ReplicaSet", "owner_uid": f"rs-{name}"}
    return ClusterPod(name, "shop", name, where, requests=Resources(100, gib * GIB, 1), ready=True, **{**owner, **more})


def drained(cluster: Cluster, *nodes: str, backups: BackupSettings | None = None) -> DrainPlan:
    return plan_drain(Situation(cluster, inputs_of(cluster, MATRIX)), nodes, backups, 1000.0)


def nodes_of(*names: str) -> list[ClusterNode]:
    return [node(name) for name in names]


def test_every_pod_leaves_for_a_node_that_keeps_its_bounds() -> None:
    pods = [pod("near", "a", labels={"delay_b": "5"}), pod("any", "a")]
    plan = drained(cluster_of(nodes_of("a", "b", "c", "d"), pods), "a").plan
    assert plan.origin is PlanOrigin.DRAIN
    assert {move.name: move.from_node for move in plan.moves} == {"near": "a", "any": "a"}
    assert {move.to_node for move in plan.moves if move.name == "near"} <= {"b", "c"}
    assert not plan.left_out
    assert sum(move.gain for move in plan.moves) == pytest.approx(10.0)


def test_nothing_goes_from_one_drained_node_to_another() -> None:
    plan = drained(cluster_of(nodes_of("a", "b", "c"), [pod("one", "a"), pod("two", "b")]), "a", "b").plan
    assert {move.to_node for move in plan.moves} == {"c"}


def test_a_pod_that_has_no_other_place_is_left_out_with_every_reason() -> None:
    pods = [pod("near", "a", labels={"delay_b": "3"}), pod("large", "c", 7), pod("huge", "b", 7)]
    [left] = drained(cluster_of(nodes_of("a", "b", "c", "d"), pods), "a").plan.left_out
    assert left.name == "near"
    assert "1 delay to b over 3 ms" in left.why
    assert "2 the pod requests 2 GiB of memory, of which the node has 1 GiB of memory free" in left.why


def test_pods_of_daemon_sets_and_static_pods_stay_and_keep_no_node_from_being_empty() -> None:
    pods = [pod("proxy", "a", owner_kind="DaemonSet"), pod("static", "a", owner_kind="Node"), pod("bare", "a")]
    pods[2] = pod("bare", "a", owner_kind="", owner_uid="", workload="pod/bare")
    result = drained(cluster_of(nodes_of("a", "b"), pods), "a")
    assert {each.name for each in result.staying} == {"proxy", "static"}
    assert {each.name: each.why for each in result.plan.left_out} == {
        "bare": "it has no controller that would make it again"
    }


def test_a_pod_elsewhere_that_is_bound_to_the_node_is_named() -> None:
    cluster = cluster_of(nodes_of("a", "b", "c"), [pod("tied", "b", labels={"delay_a": "5"})])
    [tied] = drained(cluster, "a").bound_to
    assert (tied.name, tied.node, tied.why) == ("tied", "b", "it has a delay bound to node a")


def test_a_pod_elsewhere_whose_backup_was_on_the_node_and_has_no_other_is_named() -> None:
    cluster = cluster_of(nodes_of("a", "b", "d"), [pod("tied", "b", labels={"delay_b": "5"})])
    result = drained(cluster, "a", backups=BackupSettings())
    assert [each.name for each in result.losing_backups] == ["tied"]
    assert "delay to b over 5 ms" in result.losing_backups[0].why


def test_an_unknown_node_is_named_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="there is no node z; there are a, b"):
        drained(cluster_of(nodes_of("a", "b"), []), "z")


@pytest.mark.parametrize("seed", range(60))
def test_after_all_moves_what_is_left_on_the_node_is_exactly_what_was_left_out(seed: int) -> None:
    cluster, inputs = random_case(seed)
    node = sorted(cluster.nodes)[seed % len(cluster.nodes)]
    result = plan_drain(Situation(cluster, inputs), [node], BackupSettings(rack_label=RACK_LABEL), None)
    after = cluster
    for move in result.plan.moves:
        assert move.to_node != node
        after = after.with_pod(after.pods[move.pod_uid], move.to_node)
    left = {each.name for each in (*result.plan.left_out, *result.staying)}
    assert {each.name for each in after.pods_on(node)} == left
