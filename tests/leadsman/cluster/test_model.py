"""A cluster that was derived step by step is the one that is built of the same objects."""

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from leadsman.cluster.model import UNBOUND, Cluster, ClusterPod, DisruptionBudget, Overlay, cluster_of
from leadsman.cluster.scheduling import Feasibility
from leadsman.sources.cluster.cluster_follower import read_cluster
from tests.leadsman.cluster import random_objects
from tests.leadsman.planning.moves.movable_pods import of_app

changes = st.dictionaries(st.integers(0, 9), st.none() | st.integers(), max_size=4)


def everything(cluster):
    inhabited = {name: there.pods for name, there in cluster.pods_by_node.items() if there.pods}
    uids = {name: sorted(one.uid for one in pods) for name, pods in inhabited.items()}
    return dict(cluster.nodes), dict(cluster.pods), uids, {name: cluster.requested(name) for name in inhabited}


@given(st.dictionaries(st.integers(0, 9), st.integers()), st.lists(changes, max_size=6))
def test_an_overlay_is_the_mapping_with_its_changes(base: dict[int, int], steps: list[dict[int, int | None]]) -> None:
    plain, overlay = dict(base), Overlay(base)
    for step in steps:
        overlay = overlay.replaced(step)
        plain = {key: value for key, value in {**plain, **step}.items() if value is not None}
    assert dict(overlay) == plain
    assert len(overlay) == len(plain)
    assert [key in overlay for key in range(10)] == [key in plain for key in range(10)]


def test_budgets_of_a_pod_are_those_of_its_namespace_that_select_it() -> None:
    budgets = [DisruptionBudget(namespace, "web", of_app("web")) for namespace in ("default", "other")]
    cluster, pod = cluster_of([], [], budgets=budgets), ClusterPod("p", "default", "p", labels={"app": "web"})
    assert [each.namespace for each in cluster.budgets_of(pod)] == ["default"]
    assert cluster.budgets_of(replace(pod, labels={"app": "db"})) == ()


# What is kept between clusters that were derived from one another changes neither them nor what is said of a pod.

NODE_COUNT, PODS, STEPS = 10, 30, 25


def random_cluster(rng: Random) -> Cluster:
    items = [{"kind": "Node"} | random_objects.node(rng, number) for number in range(NODE_COUNT)]
    for number in range(PODS):
        pod = random_objects.pod(rng, f"p{number}", on=rng.choice(("", f"n{rng.randrange(NODE_COUNT)}")))
        pod["metadata"] |= {"uid": f"u{number}", "namespace": rng.choice(random_objects.NAMESPACES)}
        items.append({"kind": "Pod"} | pod)
    return read_cluster(json.dumps({"items": items}).encode())


def step(rng: Random, cluster: Cluster) -> Cluster:
    """Moves a pod, unbinds, adds or deletes one, marks one as being deleted, or changes, adds or removes a node."""
    pod, node = rng.choice(list(cluster.pods.values())), rng.choice(list(cluster.nodes.values()))
    match rng.randrange(7):
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
        case 5:
            return cluster.with_pod(replace(pod, uid=f"again-{pod.uid[-1]}"), node.name)
    return cluster.with_pod(pod, rng.choice((node.name, node.name, UNBOUND)))


@pytest.mark.parametrize("seed", range(20))
def test_a_derived_cluster_is_and_allows_what_one_built_of_the_same_objects_does(seed: int) -> None:
    rng = Random(seed)
    cluster = random_cluster(rng)
    for _ in range(STEPS):
        pods = list(cluster.pods.values())[:8]
        rebuilt = cluster_of(cluster.nodes.values(), cluster.pods.values())
        assert everything(cluster) == everything(rebuilt)
        for pod in pods:
            derived, plain = Feasibility(cluster, pod), Feasibility(rebuilt, pod)
            assert set(derived.nodes) == set(plain.nodes)
            assert {n: derived.refusals(n) for n in cluster.nodes} == {n: plain.refusals(n) for n in cluster.nodes}
        cluster = step(rng, cluster)
