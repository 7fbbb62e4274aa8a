"""Pods that fall together and count on each other."""

import pytest

from leadsman.cluster.constraints import PodAffinityTerm, PodConstraints, TopologySpread
from leadsman.cluster.model import cluster_of
from leadsman.cluster.node import ZONE_LABEL, ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.cluster.selectors import LabelSelector, Operator, Requirement
from leadsman.planning.backups.planner import stuck_pods
from leadsman.planning.situation import Situation
from tests.leadsman.planning.backups.random_clusters import inputs_of

ROOM = Resources(4000, 2**33, 20)


def pods_of(app: str) -> LabelSelector:
    return LabelSelector((Requirement("app", Operator.IN, (app,)),))


def near(app: str) -> PodConstraints:
    return PodConstraints(affinity=(PodAffinityTerm(ZONE_LABEL, pods_of(app), ("shop",)),))


def spread(app: str) -> PodConstraints:
    return PodConstraints(spread=(TopologySpread(ZONE_LABEL, 1, pods_of(app)),))


def stuck(*landing: tuple[str, str, PodConstraints]) -> set[str]:
    """Of pods of these apps that fall onto these nodes, one in zone a and one in b, those that do not get there."""
    nodes = [ClusterNode(f"node-{zone}", labels={ZONE_LABEL: zone}, allocatable=ROOM, ready=True) for zone in "ab"]
    pods = [
        (ClusterPod(f"{app}-{number}", "shop", f"{app}-{number}", labels={"app": app}, constraints=constraints), node)
        for number, (app, node, constraints) in enumerate(landing)
    ]
    after = cluster_of(nodes, ())
    for pod, node in pods:
        after = after.with_pod(pod, node)
    return set(stuck_pods(Situation(after, inputs_of(after, {})), pods))


ALONE = PodConstraints()


@pytest.mark.parametrize(
    ("landing", "left"),
    [
        pytest.param(
            [("web", "node-a", near("db")), ("db", "node-a", near("db"))], set(), id="one waits for the other"
        ),
        pytest.param(
            [("web", "node-a", near("db")), ("db", "node-a", near("web"))], {"web-0", "db-1"}, id="each waits"
        ),
        pytest.param(
            [("web", "node-a", near("db")), ("db", "node-b", ALONE)], {"web-0"}, id="its partner is elsewhere"
        ),
        pytest.param([("db", "node-a", spread("db"))], set(), id="first of its kind"),
        pytest.param(
            [("db", "node-a", spread("db")), ("db", "node-a", ALONE), ("db", "node-a", ALONE)],
            {"db-0"},
            id="it may come last, and two of its kind are in the zone then",
        ),
        pytest.param([("db", "node-a", spread("db")), ("db", "node-b", spread("db"))], set(), id="an even spread"),
    ],
)
def test_who_is_stuck(landing: list[tuple[str, str, PodConstraints]], left: set[str]) -> None:
    assert stuck(*landing) == left
