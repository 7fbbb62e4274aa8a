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

GPU = "example.com/gpu"


def app(*names: str) -> LabelSelector:
    return LabelSelector((Requirement("app", Operator.IN, names),))


def near(key: str, *names: str, namespaces: tuple[str, ...] = ("default",)) -> PodAffinityTerm:
    return PodAffinityTerm(key, app(*names), namespaces)


def test_a_node_with_room_refuses_nothing(node: "MakeNode", pod: "MakePod") -> None:
    assert refusals(cluster_of([node("a")], []), pod("p"), "a") == ()


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


def test_a_cordon_is_tolerated_by_its_taint(node: "MakeNode", pod: "MakePod") -> None:
    tolerations = (Toleration("node.kubernetes.io/unschedulable", "Exists", effect="NoSchedule"),)
    cluster = cluster_of([node("a", unschedulable=True)], [])
    assert refusals(cluster, pod("p", constraints=PodConstraints(tolerations=tolerations)), "a") == ()


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


def test_one_of_several_terms_is_enough_and_an_empty_term_matches_nothing(node: "MakeNode", pod: "MakePod") -> None:
    cluster = cluster_of([node("a"), node("b")], [])
    by_name = NodeSelectorTerm(fields=(Requirement("metadata.name", Operator.IN, ("b",)),))
    constraints = PodConstraints(node_affinity=(NodeSelectorTerm(), by_name))
    assert Feasibility(cluster, pod("p", constraints=constraints)).nodes == ("b",)


def test_a_node_selector_asks_for_every_label(node: "MakeNode", pod: "MakePod") -> None:
    cluster = cluster_of([node("a", disk="ssd", arch="arm64"), node("b", disk="ssd")], [])
    constraints = PodConstraints(node_selector=(("arch", "arm64"), ("disk", "ssd")))
    assert Feasibility(cluster, pod("p", constraints=constraints)).nodes == ("a",)


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


def test_an_extended_resource_that_the_node_lacks(node: "MakeNode", pod: "MakePod") -> None:
    cluster = cluster_of([node("a")], [])
    asked = pod("p", requests=Resources(pods=1, extended={GPU: 1}))
    assert refusals(cluster, asked, "a") == (f"the pod requests 1 {GPU}, of which the node has 0 {GPU} free",)


def test_anti_affinity_keeps_away_in_both_directions(node: "MakeNode", pod: "MakePod") -> None:
    nodes = [node("a", zone="1"), node("b", zone="1"), node("c", zone="2"), node("d")]
    away = PodConstraints(anti_affinity=(near("zone", "db"),))
    before_it = cluster_of(nodes, [pod("db", "a", app="db")])
    assert Feasibility(before_it, pod("p", constraints=away)).nodes == ("c", "d")
    around_it = cluster_of(nodes, [pod("web", "a", constraints=away)])
    assert Feasibility(around_it, pod("p", app="db")).nodes == ("c", "d")


def test_anti_affinity_of_other_namespaces_counts_only_where_named(node: "MakeNode", pod: "MakePod") -> None:
    cluster = cluster_of([node("a")], [pod("db", "a", app="db", namespace="other")])
    own, named = near("host", "db"), near("host", "db", namespaces=("default", "other"))
    assert refusals(cluster, pod("p", constraints=PodConstraints(anti_affinity=(own,))), "a") == ()
    assert refusals(cluster, pod("p", constraints=PodConstraints(anti_affinity=(named,))), "a") == (
        "the node's host has a pod that this pod's required anti-affinity keeps away from",
    )


def test_a_namespace_selector_means_namespaces_by_their_labels(node: "MakeNode", pod: "MakePod") -> None:
    team = LabelSelector((Requirement("team", Operator.IN, ("x",)),))
    away = PodConstraints(anti_affinity=(PodAffinityTerm("host", app("db"), (), team),))
    pods = [pod("db", "a", app="db", namespace="other")]
    theirs = cluster_of([node("a")], pods, namespaces={"other": {"team": "x"}})
    assert Feasibility(theirs, pod("p", constraints=away)).nodes == ()
    renamed = replace(theirs, namespaces={"other": {"team": "y"}})
    assert Feasibility(renamed, pod("p", constraints=away)).nodes == ("a",)


def test_affinity_wants_one_pod_that_matches_every_term(node: "MakeNode", pod: "MakePod") -> None:
    nodes = [node("a", zone="1"), node("b", zone="2")]
    both = PodConstraints(affinity=(near("zone", "db", "cache"), near("zone", "db")))
    cluster = cluster_of(nodes, [pod("cache", "a", app="cache"), pod("db", "b", app="db")])
    assert Feasibility(cluster, pod("p", constraints=both)).nodes == ("b",)


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


def test_pods_that_are_being_deleted_do_not_count_for_spread(node: "MakeNode", pod: "MakePod") -> None:
    cluster = cluster_of([node("a", zone="1"), node("b", zone="2")], [pod("w", "a", terminating=True)])
    assert Feasibility(cluster, pod("p", constraints=PodConstraints(spread=(SPREAD,)))).nodes == ("a", "b")


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


def test_a_node_that_is_not_there_is_an_error(node: "MakeNode", pod: "MakePod") -> None:
    cluster = cluster_of([node("a"), node("b")], []).without_node("b")
    with pytest.raises(KeyError):
        refusals(cluster, pod("p"), "b")
