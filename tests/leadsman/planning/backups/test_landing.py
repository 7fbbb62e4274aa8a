"""Pods that fall together and count on each other."""

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


def test_a_pod_waits_for_the_one_that_it_wants_near() -> None:
    assert stuck(("web", "node-a", near("db")), ("db", "node-a", PodConstraints(affinity=near("db").affinity))) == set()


def test_two_that_wait_for_each_other_are_stuck() -> None:
    assert stuck(("web", "node-a", near("db")), ("db", "node-a", near("web"))) == {"web-0", "db-1"}


def test_a_pod_whose_partner_lands_elsewhere_is_stuck() -> None:
    assert stuck(("web", "node-a", near("db")), ("db", "node-b", PodConstraints())) == {"web-0"}


def test_a_pod_that_may_come_last_must_find_its_place_then() -> None:
    """It finds one as the first, and none once two of its kind are in that zone."""
    db = ("db", "node-a", PodConstraints())
    assert stuck(("db", "node-a", spread("db"))) == set()
    assert stuck(("db", "node-a", spread("db")), db, db) == {"db-0"}


def test_a_pod_that_an_even_spread_takes_is_not_stuck() -> None:
    assert stuck(("db", "node-a", spread("db")), ("db", "node-b", spread("db"))) == set()
