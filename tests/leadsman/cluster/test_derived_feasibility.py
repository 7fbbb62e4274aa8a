"""What is kept between clusters that were derived from one another never changes what is said of a pod."""

import json
from random import Random

import pytest
from msgspec.structs import replace

from leadsman.cluster.model import Cluster, cluster_of
from leadsman.cluster.scheduling import Feasibility
from leadsman.sources.cluster.cluster_follower import read_cluster
from tests.leadsman.cluster import random_objects

NODES, PODS, STEPS = 10, 30, 25


def random_cluster(rng: Random) -> Cluster:
    items = [{"kind": "Node"} | random_objects.node(rng, number) for number in range(NODES)]
    for number in range(PODS):
        pod = random_objects.pod(rng, f"p{number}", on=rng.choice(("", f"n{rng.randrange(NODES)}")))
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
        case 3 if len(cluster.nodes) > NODES // 2:
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
