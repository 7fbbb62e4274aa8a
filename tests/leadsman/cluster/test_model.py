"""A cluster that was derived step by step is the one that is built of the same objects."""

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from leadsman.cluster.constraints import LabelSelector, Operator, Requirement
from leadsman.cluster.model import UNBOUND, Cluster, ClusterNode, ClusterPod, DisruptionBudget, Overlay, cluster_of
from leadsman.cluster.resources import Resources
from leadsman.cluster.scheduling import Feasibility
from leadsman.sources.cluster.cluster_follower import read_cluster
from tests.leadsman.cluster import random_objects

NODES = [ClusterNode(name, allocatable=Resources(1000, 100, 10)) for name in ("a", "b", "c")]
WEB = LabelSelector((Requirement("app", Operator.IN, ("web",)),))

changes = st.dictionaries(st.integers(0, 9), st.none() | st.integers(), max_size=4)


def pod(uid, node=UNBOUND, millis=100, **more):
    return ClusterPod(uid, "default", uid, node, requests=Resources(millis, 10, 1), **more)


def everything(cluster):
    return (
        dict(cluster.nodes),
        dict(cluster.pods),
        {name: sorted(one.uid for one in there.pods) for name, there in _inhabited(cluster)},
        {name: cluster.requested(name) for name, _ in _inhabited(cluster)},
    )


def _inhabited(cluster):
    return [(name, there) for name, there in cluster.pods_by_node.items() if there.pods]


@given(st.dictionaries(st.integers(0, 9), st.integers()), st.lists(changes, max_size=6))
def test_an_overlay_is_the_mapping_with_its_changes(base: dict[int, int], steps: list[dict[int, int | None]]) -> None:
    plain, overlay = dict(base), Overlay(base)
    for step in steps:
        overlay = overlay.replaced(step)
        plain = {key: value for key, value in {**plain, **step}.items() if value is not None}
    assert dict(overlay) == plain
    assert len(overlay) == len(plain)
    assert [key in overlay for key in range(10)] == [key in plain for key in range(10)]


placements = st.lists(st.tuples(st.sampled_from("pqrst"), st.sampled_from(["a", "b", "c", UNBOUND, None])), max_size=12)


@given(placements)
def test_a_derived_cluster_is_the_one_built_of_the_same_objects(steps) -> None:
    derived, placed = cluster_of(NODES, [pod("p", "a"), pod("q")]), {"p": "a", "q": UNBOUND}
    for uid, node in steps:
        derived = derived.without_pod(uid) if node is None else derived.with_pod(pod(uid), node)
        placed[uid] = node
    rebuilt = cluster_of(NODES, [pod(uid, node) for uid, node in placed.items() if node is not None])
    assert everything(derived) == everything(rebuilt)


def test_budgets_of_a_pod_are_those_of_its_namespace_that_select_it() -> None:
    budgets = [DisruptionBudget("default", "web", WEB), DisruptionBudget("other", "web", WEB)]
    cluster = cluster_of(NODES, [], budgets=budgets)
    assert [each.namespace for each in cluster.budgets_of(pod("p", labels={"app": "web"}))] == ["default"]
    assert cluster.budgets_of(pod("p", labels={"app": "db"})) == ()


# What is kept between clusters that were derived from one another never changes what is said of a pod.

NODE_COUNT, PODS, STEPS = 10, 30, 25


def random_cluster(rng: Random) -> Cluster:
    items = [{"kind": "Node"} | random_objects.node(rng, number) for number in range(NODE_COUNT)]
    for number in range(PODS):
        pod = random_objects.pod(rng, f"p{number}", on=rng.choice(("", f"n{rng.randrange(NODE_COUNT)}")))
        pod["metadata"] |= {"uid": f"u{number}", "namespace": rng.choice(random_objects.NAMESPACES)}
        items.append({"kind": "Pod"} | pod)
    return read_cluster(json.dumps({"items": items}).encode())


def step(rng: Random, cluster: Cluster) -> Cluster:
    """Moves a pod, deletes one, marks one as being deleted, or changes, adds or removes a node."""
    pod, node = rng.choice(list(cluster.pods.values())), rng.choice(list(cluster.nodes.values()))
    match rng.randrange(6):
        case 0:
            return cluster.without_pod(pod.uid)
        case 1:
            return cluster.changed(pods={pod.uid: replace(pod, terminating=True)})
        case 2:
            return cluster.changed(nodes={node.name: replace(node, labels={**node.labels, "rack": rng.choice("xyz")})})
        case 3 if len(cluster.nodes) > NODE_COUNT // 2:
            return cluster.changed(
                nodes={node.name: None}, pods={each.uid: None for each in cluster.pods_on(node.name)}
            )
        case 4:
            return cluster.changed(nodes={f"new-{pod.uid}": replace(node, name=f"new-{pod.uid}")})
    return cluster.with_pod(pod, node.name)


@pytest.mark.parametrize("seed", range(20))
def test_a_derived_cluster_allows_what_one_built_of_the_same_objects_does(seed: int) -> None:
    rng = Random(seed)
    cluster = random_cluster(rng)
    for _ in range(STEPS):
        pods = list(cluster.pods.values())[:8]
        rebuilt = cluster_of(cluster.nodes.values(), cluster.pods.values())
        for pod in pods:
            derived, plain = Feasibility(cluster, pod), Feasibility(rebuilt, pod)
            assert set(derived.nodes) == set(plain.nodes)
            assert {n: derived.refusals(n) for n in cluster.nodes} == {n: plain.refusals(n) for n in cluster.nodes}
        cluster = step(rng, cluster)
