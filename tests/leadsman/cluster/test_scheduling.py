"""Each requirement of kube-scheduler by itself, on the smallest cluster that shows it."""

from typing import Any

import pytest
from msgspec.structs import replace

from leadsman.cluster.constraints import HostPort, PodAffinityTerm, PodConstraints, Taint, Toleration, TopologySpread
from leadsman.cluster.model import cluster_of
from leadsman.cluster.resources import Resources
from leadsman.cluster.scheduling import Feasibility, refusals
from leadsman.cluster.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from tests.leadsman.cluster.conftest import MakeNode, MakePod


def app(*names: str) -> LabelSelector:
    return LabelSelector((Requirement("app", Operator.IN, names),))


def near(key: str, *names: str) -> PodAffinityTerm:
    return PodAffinityTerm(key, app(*names), ("default",))


def test_every_reason_is_given(node: MakeNode, pod: MakePod) -> None:
    full = node("a", unschedulable=True, allocatable=Resources(100, 100, 1))
    cluster = cluster_of([full], [pod("other", "a", requests=Resources(90, 0, 1))])
    assert refusals(cluster, pod("p", requests=Resources(50, 0, 1)), "a") == (
        "the node is cordoned",
        "the pod requests 50m cpu, of which the node has 10m cpu free",
        "the pod requests 1 pods, of which the node has 0 pods free",
    )


def affine(operator: Operator, *values: str) -> PodConstraints:
    return PodConstraints(node_affinity=(NodeSelectorTerm((Requirement("disk", operator, values),)),))


def tolerating(*tolerations: Toleration) -> PodConstraints:
    return PodConstraints(tolerations=tolerations)


def on_port(*port: Any, **more: Any) -> PodConstraints:
    return PodConstraints(host_ports=(HostPort(*port, **more),))


DB_ANTI_AFFINITY = PodConstraints(anti_affinity=(near("zone", "db"),))


@pytest.mark.parametrize(
    ("wants", "nodes"),
    [
        (PodConstraints(), "acd"),
        (tolerating(Toleration("k", "Equal", "v")), "abcd"),
        (tolerating(Toleration("k", "Equal", "w"), Toleration("k", "Equal", "v", "NoExecute")), "acd"),
        (tolerating(Toleration("", "Exists")), "abcd"),
        (affine(Operator.IN, "ssd", "nvme"), "a"),
        (affine(Operator.NOT_IN, "ssd"), "cd"),
        (affine(Operator.EXISTS), "ac"),
        (affine(Operator.DOES_NOT_EXIST), "d"),
        (on_port(80), "cd"),
        (on_port(80, ip="10.0.0.2"), "acd"),
        (on_port(80, "UDP"), "acd"),
        (DB_ANTI_AFFINITY, "cd"),
        (PodConstraints(affinity=(near("zone", "db"),)), "a"),
        # The first pod of a group goes where the label is.
        (PodConstraints(affinity=(near("zone", "web"),)), "ac"),
        (PodConstraints(affinity=(near("zone", "cache"),)), ""),
    ],
)
def test_each_requirement(node: MakeNode, pod: MakePod, wants: PodConstraints, nodes: str) -> None:
    """A pod of app db with port 80 of one address is on a; b is tainted, and d is in no zone and has no disk."""
    there = [node("a", zone="1", disk="ssd"), node("b", zone="1", disk="ssd", taints=(Taint("k", "v"),))]
    there += [node("c", zone="2", disk="hdd"), node("d", taints=(Taint("k", "v", "PreferNoSchedule"),))]
    cluster = cluster_of(there, [pod("db", "a", app="db", constraints=on_port(80, ip="10.0.0.1"))])
    assert "".join(Feasibility(cluster, pod("p", constraints=wants)).nodes) == nodes


def test_pods_that_are_there_keep_others_away(node: MakeNode, pod: MakePod) -> None:
    there = [node("a", zone="1"), node("b", zone="1"), node("c", zone="2"), node("d")]
    cluster = cluster_of(there, [pod("web", "a", constraints=DB_ANTI_AFFINITY)])
    assert Feasibility(cluster, pod("p", app="db")).nodes == ("c", "d")


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
def test_topology_spread(node: MakeNode, pod: MakePod, constraint: TopologySpread, nodes: str) -> None:
    """Zone 1 has one pod, zone 2 none, and node d is in no zone."""
    cluster = cluster_of([node("a", zone="1"), node("b", zone="1"), node("c", zone="2"), node("d")], [pod("w", "a")])
    spread = PodConstraints(spread=(constraint,))
    assert "".join(Feasibility(cluster, pod("p", constraints=spread)).nodes) == nodes


def test_domains_that_the_pod_cannot_enter_count_only_by_policy(node: MakeNode, pod: MakePod) -> None:
    """Zone 2 is empty, so it holds the pod back from zone 1, unless the policy leaves zone 2 out."""
    tainted = node("b", zone="2", taints=(Taint("k"),))
    cluster = cluster_of([node("a", zone="1", disk="ssd"), tainted], [pod("w", "a")])
    honoring = replace(SPREAD, honor_taints=True)
    assert Feasibility(cluster, pod("p", constraints=PodConstraints(spread=(SPREAD,)))).nodes == ()
    assert Feasibility(cluster, pod("p", constraints=PodConstraints(spread=(honoring,)))).nodes == ("a",)
    selecting = PodConstraints(node_selector=(("disk", "ssd"),), spread=(SPREAD,))
    assert Feasibility(cluster, pod("p", constraints=selecting)).nodes == ("a",)


def test_a_bound_pod_is_judged_as_if_it_were_off_its_node(node: MakeNode, pod: MakePod) -> None:
    away = PodConstraints(anti_affinity=(near("host", "web"),), host_ports=(HostPort(80),))
    bound = pod("p", "a", requests=Resources(900, 0, 1), constraints=away)
    assert refusals(cluster_of([node("a")], [bound]), bound, "a") == ()


def test_a_gated_pod_goes_nowhere_and_labels_that_were_cut_match_nothing(node: MakeNode, pod: MakePod) -> None:
    cluster = cluster_of([node("a", labels_cut=1), node("b")], [])
    assert Feasibility(cluster, pod("p")).nodes == ("b",)
    assert Feasibility(cluster, pod("p", labels_cut=1)).nodes == ()
    assert Feasibility(cluster, pod("p", gated=True)).nodes == ()
