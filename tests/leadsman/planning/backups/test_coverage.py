"""A pod is covered when its room is held, and not a moment earlier."""

import pytest

from leadsman.cluster.model import cluster_of
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.planning.backups.backup_plan import Backup, BackupPlan
from leadsman.planning.backups.placeholders import Coverage, CoverageState, coverage_of

NODE = ClusterNode("edge-2", allocatable=Resources(4000, 2**33, 20))
ROOM = Resources(100, 2**30, 1)
PLAN = BackupPlan({"web": Backup("edge-2", ())}, {"edge-2": ROOM})


@pytest.mark.parametrize(
    ("placeholder_on", "problems", "expected"),
    [
        ("edge-2", {}, Coverage(CoverageState.COVERED, "edge-2")),
        (
            "",
            {},
            Coverage(
                CoverageState.WAITING, "edge-2", "node edge-2 does not hold its room yet: cpu, memory, pods missing"
            ),
        ),
        (None, {"edge-2": "quota exceeded"}, Coverage(CoverageState.UNCOVERED, "edge-2", "quota exceeded")),
    ],
)
def test_a_pod_is_covered_once_the_placeholder_is_bound(
    placeholder_on: str | None, problems: dict[str, str], expected: Coverage
) -> None:
    labels = {"leadsman.dev/placeholder": "edge-2"}
    holding = [ClusterPod("hold", "x", "hold", placeholder_on or "", requests=ROOM, labels=labels)]
    cluster = cluster_of([NODE], [] if placeholder_on is None else holding)
    assert coverage_of(cluster, PLAN, problems) == {"web": expected}
