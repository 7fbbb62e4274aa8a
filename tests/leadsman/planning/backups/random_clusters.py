"""Random small clusters with bounded pods, by seed: what plans are tried on."""

import random
from collections.abc import Mapping
from math import dist
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.constraints import UNCONSTRAINED, PodAffinityTerm, PodConstraints, TopologySpread
from leadsman.cluster.model import ZONE_LABEL, Cluster, ClusterNode, ClusterPod, DisruptionBudget, cluster_of
from leadsman.cluster.resources import Resources
from leadsman.decision.delay.delay_plugins import DelayFilter
from leadsman.decision.inputs import DecisionInputs, PlacedPod, SourceRow, WorkloadIndex
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.state.snapshot import Snapshot
from tests.leadsman.planning.moves.movable_pods import of_app, owned_pod

RACK_LABEL = "example.com/rack"
MIB = 2**20
PROTECTED = DisruptionBudget("shop", "protected", of_app("a"))

Rtts = Mapping[str, Mapping[str, float]]
"""Node → node → its round trip in ms."""


class Matrix(Struct, frozen=True, eq=False):
    """A DelayView of a whole matrix."""

    rtt_ms: Rtts
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


def random_cluster_to_move(seed: int) -> tuple[Cluster, Rtts, ClusterPod | None]:
    """A case of at most five nodes in which one bounded pod, if there is one, has lost its node and grown."""
    cluster, inputs = random_case(seed, nodes=5, pods=16)
    matrix = inputs.delay_views[0].rtt_ms  # type: ignore[attr-defined]
    bounded = [pod for pod in cluster.pods.values() if any(label.startswith("delay_") for label in pod.labels)]
    if not bounded:
        return cluster, matrix, None
    pending = replace(bounded[seed % len(bounded)], node="", phase="Pending")
    pending = replace(pending, requests=pending.requests + pending.requests - replace(pending.requests, cpu_millis=0))
    return cluster.with_pod(pending, ""), matrix, pending


def keeps(cluster: Cluster, matrix: Rtts, pod: ClusterPod) -> bool:
    """Whether the pod keeps its bounds where everything is now, room aside."""
    info = PodInfo(pod.namespace, pod.name, pod.uid, pod.labels, pod.annotations, pod.workload)
    return not info.has_delay_bounds or pod.node not in DelayFilter().refusals(
        info, tuple(cluster.nodes), inputs_of(cluster, matrix)
    )


def loses_nothing(before: Cluster, after: Cluster, matrix: Rtts, moved: set[str]) -> bool:
    """Whether the moved pods keep their bounds afterwards, and the others those that they kept before."""
    return all(
        keeps(after, matrix, pod)
        for uid, pod in after.pods.items()
        if pod.node and (uid in moved or keeps(before, matrix, before.pods[uid]))
    )


def inputs_of(cluster: Cluster, matrix: Rtts) -> DecisionInputs:
    """The decision inputs to the cluster: its workloads where they have a node, delays from the matrix."""
    placed: dict[tuple[str, str], dict[str, tuple[PlacedPod, ...]]] = {}
    for pod in filter(lambda each: each.node, cluster.pods.values()):
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
