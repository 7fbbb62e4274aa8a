"""Random small clusters with bounded pods, by seed: what a backup plan is tried on."""

import random
from collections.abc import Mapping
from math import dist
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.constraints import UNCONSTRAINED, PodAffinityTerm, PodConstraints, TopologySpread
from leadsman.cluster.model import ZONE_LABEL, Cluster, ClusterNode, ClusterPod, cluster_of
from leadsman.cluster.resources import Resources
from leadsman.decision.inputs import DecisionInputs, PlacedPod, SourceRow, WorkloadIndex
from leadsman.decision.policy import Policy
from leadsman.state.snapshot import Snapshot
from tests.leadsman.planning.moves.movable_pods import of_app, owned_pod

RACK_LABEL = "example.com/rack"
MIB = 2**20


class Matrix(Struct, frozen=True, eq=False):
    """A DelayView of a whole matrix: node → node → ms."""

    rtt_ms: Mapping[str, Mapping[str, float]]
    source: str = "matrix"
    read_at: float | None = None
    fresh_until: float = float("inf")

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(self.rtt_ms)

    def row(self, reference: str) -> SourceRow:
        return SourceRow(forward=self.rtt_ms.get(reference, {}))


class Case(NamedTuple):
    cluster: Cluster
    inputs: DecisionInputs


def random_case(seed: int, nodes: int = 6, pods: int = 12, *, constrained: bool = False) -> Case:
    """Nodes in two zones of two racks each, and pods of a few workloads bound to nodes and to each other.

    constrained: every third pod or so has affinity, anti-affinity or spread; else the cluster of the seed is the same.
    """
    rng, constraints_rng = random.Random(seed), random.Random(-1 - seed)
    names = [f"node-{number}" for number in range(rng.randint(3, nodes))]
    position = {name: (rng.uniform(0, 30), rng.uniform(0, 30)) for name in names}
    matrix = {a: {b: dist(position[a], position[b]) for b in names} for a in names}
    cluster = cluster_of([_node(name, rng) for name in names], ())
    for number in range(rng.randint(1, pods)):
        pod = replace(_pod(number, names, rng), constraints=_constraints(constraints_rng, constrained=constrained))
        node = rng.choice(names)
        if pod.requests.fits(cluster.free(node)):
            cluster = cluster.with_pod(pod, node)
    return Case(cluster, inputs_of(cluster, matrix))


def inputs_of(cluster: Cluster, matrix: Mapping[str, Mapping[str, float]]) -> DecisionInputs:
    """The decision inputs to the cluster: its workloads where they are, delays from the matrix."""
    placed: dict[tuple[str, str], dict[str, tuple[PlacedPod, ...]]] = {}
    for pod in cluster.pods.values():
        kind, _, name = pod.workload.partition("/")
        kinds = placed.setdefault((pod.namespace, name), {})
        kinds[kind] = (*kinds.get(kind, ()), PlacedPod(pod.name, pod.node))
    return DecisionInputs(
        Snapshot(), Policy(), now=100.0, workloads=WorkloadIndex(placed, 100.0), delay_views=(Matrix(matrix),)
    )


def _node(name: str, rng: random.Random) -> ClusterNode:
    labels = {ZONE_LABEL: rng.choice("ab"), RACK_LABEL: rng.choice("12")}
    size = Resources(
        rng.choice((2000, 4000)), rng.choice((4096, 8192)) * MIB, 20, {"example.com/gpu": rng.choice((1, 2))}
    )
    return ClusterNode(name, uid=name, labels=labels, allocatable=size, ready=True)


def _pod(number: int, nodes: list[str], rng: random.Random) -> ClusterPod:
    app = rng.choice(("a", "b", "c"))
    references = [*nodes, "a", "b", "c"]
    bounds = {f"delay_{rng.choice(references)}": str(rng.choice((5, 15, 25))) for _ in range(rng.randint(0, 2))}
    extended = {"example.com/gpu": 1} if rng.random() < 0.1 else {}
    return owned_pod(
        f"{app}-{number}",
        "",
        Resources(rng.choice((100, 500)), rng.choice((256, 1024, 3072)) * MIB, 1, extended),
        app,
        uid=f"uid-{number}",
        labels={**bounds, "app": app},
        annotations={"leadsman.dev/backup": rng.choice(("node", "node", "rack", "zone"))},
        phase="Running",
    )


def _constraints(rng: random.Random, *, constrained: bool) -> PodConstraints:
    """Of every third pod or so, one that counts on where the pods of a workload are."""
    if not constrained:
        return UNCONSTRAINED
    key, selector = rng.choice((ZONE_LABEL, RACK_LABEL)), of_app(rng.choice("abc"))
    term = PodAffinityTerm(key, selector, ("shop",))
    kinds = (
        PodConstraints(affinity=(term,)),
        PodConstraints(anti_affinity=(term,)),
        PodConstraints(spread=(TopologySpread(key, 1, selector),)),
    )
    return rng.choice((*kinds, *(UNCONSTRAINED,) * 6))
