"""A pod is covered when its room is held, and not a moment earlier."""

from leadsman.cluster.model import cluster_of
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.planning.backups.backup_plan import Backup, BackupPlan, Uncovered
from leadsman.planning.backups.placeholders import Coverage, CoverageState, coverage_of

NODE = ClusterNode("edge-2", allocatable=Resources(4000, 2**33, 20))
ROOM = Resources(100, 2**30, 1)
PLAN = BackupPlan({"web": Backup("edge-2", ())}, {"edge-2": ROOM})


def placeholder(node: str) -> ClusterPod:
    return ClusterPod("hold", "x", "hold", node, requests=ROOM, labels={"leadsman.dev/placeholder": "edge-2"})


def test_it_is_covered_once_the_placeholder_is_bound() -> None:
    coverage = coverage_of(cluster_of([NODE], [placeholder("edge-2")]), PLAN, {})
    assert coverage == {"web": Coverage(CoverageState.COVERED, "edge-2")}


def test_it_waits_until_then_and_says_for_what() -> None:
    [found] = coverage_of(cluster_of([NODE], [placeholder("")]), PLAN, {}).values()
    reason = "node edge-2 does not hold its room yet: cpu, memory, pods missing"
    assert found == Coverage(CoverageState.WAITING, "edge-2", reason)


def test_a_refused_placeholder_leaves_it_uncovered_with_the_refusal() -> None:
    [found] = coverage_of(cluster_of([NODE], []), PLAN, {"edge-2": "quota room exceeded"}).values()
    assert found == Coverage(CoverageState.UNCOVERED, "edge-2", "quota room exceeded")


def test_one_without_a_backup_keeps_the_plan_s_reason() -> None:
    plan = BackupPlan({"web": Uncovered("no node is near")})
    assert coverage_of(cluster_of([NODE], []), plan, {})["web"].reason == "no node is near"
