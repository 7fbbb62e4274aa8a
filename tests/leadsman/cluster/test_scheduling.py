"""Each requirement of kube-scheduler by itself, on the smallest cluster that shows it."""

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from leadsman.cluster.constraints import (
    HostPort,
    PodAffinityTerm,
    PodConstraints,
    Taint,
    Toleration,
    TopologySpread,
)
from leadsman.cluster.model import cluster_of
from leadsman.cluster.resources import Resources
from leadsman.cluster.scheduling import Feasibility, refusals
from leadsman.cluster.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement

if TYPE_CHECKING:
    from tests.leadsman.cluster.conftest import MakeNode, MakePod


def app(*names: str) -> LabelSelector:
    return LabelSelector((Requirement("app", Operator.IN, names),))


def near(key: str, *names: str, namespaces: tuple[str, ...] = ("default",)) -> PodAffinityTerm:
    return PodAffinityTerm(key, app(*names), namespaces)


def test_every_reason_is_given(node: "MakeNode", pod: "MakePod") -> None:
    full = node("a", unschedulable=True, allocatable=Resources(100, 100, 1))
    cluster = cluster_of([full], [pod("other", "a", requests=Resources(90, 0, 1))])
    assert refusals(cluster, pod("p", requests=Resources(50, 0, 1)), "a") == (
        "the node is cordoned",
        "the pod requests 50m cpu, of which the node has 10m cpu free",
        "the pod requests 1 pods, of which the node has 0 pods free",
    )


@pytest.mark.parametrize(
    ("taint", "toleration", "tolerated"),
    [
        (Taint("k", "v"), None, False),
        (Taint("k", "v", "PreferNoSchedule"), None, True),
        (Taint("k", "v", "NoExecute"), Toleration("k", "Equal", "v", "NoSchedule"), False),
        (Taint("k", "v"), Toleration("k", "Equal", "v"), True),
        (Taint("k", "v"), Toleration("k", "Equal", "w"), False),
        (Taint("k", "v"), Toleration("k", "Exists"), True),
        (Taint("k", "v"), Toleration("", "Exists"), True),
    ],
)
def test_taints_and_tolerations(node: "MakeNode", pod: "MakePod", taint, toleration, tolerated) -> None:
    tolerations = (toleration,) if toleration else ()
    cluster = cluster_of([node("a", taints=(taint,))], [])
    refused = refusals(cluster, pod("p", constraints=PodConstraints(tolerations=tolerations)), "a")
    assert refused == (() if tolerated else (f"the pod does not tolerate the node's taint k=v:{taint.effect}",))


@pytest.mark.parametrize(
    ("operator", "values", "nodes"),
    [
        (Operator.IN, ("ssd", "nvme"), "a"),
        (Operator.NOT_IN, ("ssd",), "bc"),
        (Operator.EXISTS, (), "ab"),
        (Operator.DOES_NOT_EXIST, (), "c"),
    ],
)
def test_node_affinity(node: "MakeNode", pod: "MakePod", operator, values, nodes) -> None:
    cluster = cluster_of([node("a", disk="ssd"), node("b", disk="hdd"), node("c")], [])
    affinity = (NodeSelectorTerm((Requirement("disk", operator, values),)),)
    allowed = Feasibility(cluster, pod("p", constraints=PodConstraints(node_affinity=affinity))).nodes
    assert "".join(allowed) == nodes


@pytest.mark.parametrize(
    ("asked", "conflicts"),
    [
        (HostPort(80), True),
        (HostPort(80, ip="10.0.0.1"), True),
        (HostPort(80, ip="10.0.0.2"), False),
        (HostPort(80, "UDP"), False),
        (HostPort(81), False),
    ],
)
def test_host_ports(node: "MakeNode", pod: "MakePod", asked: HostPort, conflicts: bool) -> None:
    taken = pod("p", "a", constraints=PodConstraints(host_ports=(HostPort(80, ip="10.0.0.1"),)))
    asking = pod("q", constraints=PodConstraints(host_ports=(asked,)))
    assert bool(refusals(cluster_of([node("a")], [taken]), asking, "a")) == conflicts


def test_anti_affinity_keeps_away_in_both_directions(node: "MakeNode", pod: "MakePod") -> None:
    nodes = [node("a", zone="1"), node("b", zone="1"), node("c", zone="2"), node("d")]
    away = PodConstraints(anti_affinity=(near("zone", "db"),))
    before_it = cluster_of(nodes, [pod("db", "a", app="db")])
    assert Feasibility(before_it, pod("p", constraints=away)).nodes == ("c", "d")
    around_it = cluster_of(nodes, [pod("web", "a", constraints=away)])
    assert Feasibility(around_it, pod("p", app="db")).nodes == ("c", "d")


def test_the_first_pod_of_a_group_goes_where_the_label_is(node: "MakeNode", pod: "MakePod") -> None:
    cluster = cluster_of([node("a", zone="1"), node("b")], [])
    together = PodConstraints(affinity=(near("zone", "web"),))
    assert Feasibility(cluster, pod("p", constraints=together)).nodes == ("a",)
    assert Feasibility(cluster, pod("p", app="db", constraints=together)).nodes == ()


SPREAD = TopologySpread("zone", 1, app("web"))


@pytest.mark.parametrize(
    ("constraint", "nodes"),
    [
        (SPREAD, "c"),
        (replace(SPREAD, max_skew=2), "abc"),
        # Fewer domains than asked for: the least populated one counts as empty.
        (replace(SPREAD, min_domains=2), "c"),
        (replace(SPREAD, min_domains=3), "c"),
        (replace(SPREAD, selector=None), "abc"),
    ],
)
def test_topology_spread(node: "MakeNode", pod: "MakePod", constraint: TopologySpread, nodes: str) -> None:
    """Zone 1 has one pod, zone 2 none, and node d is in no zone."""
    cluster = cluster_of([node("a", zone="1"), node("b", zone="1"), node("c", zone="2"), node("d")], [pod("w", "a")])
    spread = PodConstraints(spread=(constraint,))
    assert "".join(Feasibility(cluster, pod("p", constraints=spread)).nodes) == nodes


def test_domains_that_the_pod_cannot_enter_count_only_by_policy(node: "MakeNode", pod: "MakePod") -> None:
    """Zone 2 is empty, so it holds the pod back from zone 1, unless the policy leaves zone 2 out."""
    tainted = node("b", zone="2", taints=(Taint("k"),))
    cluster = cluster_of([node("a", zone="1", disk="ssd"), tainted], [pod("w", "a")])
    honoring = replace(SPREAD, honor_taints=True)
    assert Feasibility(cluster, pod("p", constraints=PodConstraints(spread=(SPREAD,)))).nodes == ()
    assert Feasibility(cluster, pod("p", constraints=PodConstraints(spread=(honoring,)))).nodes == ("a",)
    selecting = PodConstraints(node_selector=(("disk", "ssd"),), spread=(SPREAD,))
    assert Feasibility(cluster, pod("p", constraints=selecting)).nodes == ("a",)


def test_a_bound_pod_is_judged_as_if_it_were_off_its_node(node: "MakeNode", pod: "MakePod") -> None:
    away = PodConstraints(anti_affinity=(near("host", "web"),), host_ports=(HostPort(80),))
    bound = pod("p", "a", requests=Resources(900, 0, 1), constraints=away)
    assert refusals(cluster_of([node("a")], [bound]), bound, "a") == ()


def test_a_gated_pod_goes_nowhere(node: "MakeNode", pod: "MakePod") -> None:
    assert Feasibility(cluster_of([node("a")], []), pod("p", gated=True)).nodes == ()


def test_labels_that_were_cut_are_unknown_so_they_match_nothing(node: "MakeNode", pod: "MakePod") -> None:
    cluster = cluster_of([node("a", labels_cut=1), node("b")], [])
    assert Feasibility(cluster, pod("p")).nodes == ("b",)
    assert Feasibility(cluster, pod("p", labels_cut=1)).nodes == ()
