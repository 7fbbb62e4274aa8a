"""Random clusters whose pods are bound to nodes, some of them not placed yet: what an optimiser has to choose in."""

import random

from leadsman.cluster.model import ZONE_LABEL, ClusterNode, cluster_of
from leadsman.cluster.resources import Resources
from tests.leadsman.planning.backups.random_clusters import MIB, RACK_LABEL, Case, inputs_of
from tests.leadsman.planning.moves.movable_pods import owned_pod


def node_bound_case(seed: int, nodes: int = 6, pods: int = 10, placed_ratio: float = 0.5) -> Case:
    """Delays of 1 to 30 ms between nodes in two zones, and pods of three sizes within 10 to 30 ms of a node."""
    rng = random.Random(seed)
    names = [f"node-{number}" for number in range(nodes)]
    delays = {pair: rng.uniform(1, 30) for pair in ((a, b) for a in names for b in names if a < b)}
    matrix = {a: {b: delays[min(a, b), max(a, b)] if a != b else 0.0 for b in names} for a in names}
    size = Resources(8000, 4096 * MIB, 20)
    labels = {name: {ZONE_LABEL: rng.choice("ab"), RACK_LABEL: rng.choice("12")} for name in names}
    cluster = cluster_of([ClusterNode(n, labels=labels[n], allocatable=size, ready=True) for n in names], ())
    for number in range(pods):
        pod = owned_pod(
            f"web-{number}",
            "",
            Resources(rng.choice((100, 500)), rng.choice((256, 512, 1024)) * MIB, 1),
            uid=f"uid-{number}",
            labels={f"delay_{rng.choice(names)}": str(rng.choice((10, 20, 30)))},
            annotations={"leadsman.dev/backup": rng.choice(("node", "node", "node", "rack", "zone", "none"))},
            local_volumes=rng.random() < 0.1,
        )
        node = rng.choice(names) if rng.random() < placed_ratio else ""
        fits = node and pod.requests.fits(cluster.free(node))
        cluster = cluster.with_pod(pod, node if fits else "")
    return Case(cluster, inputs_of(cluster, matrix))
