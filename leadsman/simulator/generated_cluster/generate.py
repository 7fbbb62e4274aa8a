"""Makes a cluster and its decision inputs from a specification. The same specification and seed give the same bytes."""

from collections.abc import Iterator
from types import MappingProxyType

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.constraints import PodConstraints, Taint, Toleration
from leadsman.cluster.model import UNBOUND, Cluster, cluster_of
from leadsman.cluster.node import ZONE_LABEL, ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy
from leadsman.network.measured_pairs import Floats, Indices
from leadsman.planning.backups.model import BackupSettings
from leadsman.simulator.generated_cluster.network import GeneratedNetwork, make_network, random_peers
from leadsman.simulator.generated_cluster.spec import MAX_PODS, GeneratorSpec
from leadsman.sources.delay.matrix import DelayMatrix
from leadsman.state.records import Heartbeat, Identity, Latency, PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot

POD_SLOTS = 110
NAMESPACE = "default"
SPECIAL = Taint("dedicated", "special")
DISK = ("disk", "ssd")
PUSH_INTERVAL_SECONDS = 5.0
NOW = 0.0
"""The clock of the inputs. Nothing ages: a plan is made at one moment."""


class _Workload(Struct, frozen=True):
    """replicas pods of one template. allowed: the nodes that keep its bound, taints and labels."""

    template: ClusterPod
    replicas: int
    allowed: Indices


def generate(spec: GeneratorSpec, measured_ms: Floats | None = None) -> tuple[Cluster, DecisionInputs]:
    """The cluster of a specification. measured_ms: the matrix that `network` names. spec.BadSpec."""
    rng = np.random.default_rng(spec.seed)
    network = make_network(spec, measured_ms, rng)
    nodes = _nodes(spec, network, rng)
    pods = _pods(spec, network, nodes, rng)
    return cluster_of(nodes, pods), _inputs(spec, network, rng)


def _nodes(spec: GeneratorSpec, network: GeneratedNetwork, rng: np.random.Generator) -> list[ClusterNode]:
    tainted, labelled = (_some(spec.node_count, share, rng) for share in (spec.tainted, spec.labelled))
    made = []
    for number, name in enumerate(network.names):
        zone, rack = f"zone-{network.zone[number]}", f"rack-{network.rack[number]}"
        labels = {"kubernetes.io/hostname": name, ZONE_LABEL: zone, BackupSettings().rack_label: rack}
        made.append(
            ClusterNode(
                name,
                uid=name,
                labels=labels | (dict([DISK]) if labelled[number] else {}),
                taints=(SPECIAL,) if tainted[number] else (),
                allocatable=Resources(spec.cpu_millis, spec.memory_bytes, POD_SLOTS),
                ready=True,
            )
        )
    return made


def _some(of: int, share: float, rng: np.random.Generator) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """The share of them, exactly, drawn at random."""
    chosen = np.zeros(of, bool)
    chosen[rng.choice(of, round(of * share), replace=False)] = True
    return chosen


def _pods(
    spec: GeneratorSpec, network: GeneratedNetwork, nodes: list[ClusterNode], rng: np.random.Generator
) -> list[ClusterPod]:
    """Each goes to the node with the most free memory that it may have; one that finds no room waits."""
    free = np.full(len(nodes), spec.memory_bytes)
    slots = np.full(len(nodes), POD_SLOTS)
    limit = spec.pods or MAX_PODS
    memory_left = spec.memory_bytes * len(nodes) * (1.0 if spec.pods else 1.0 - spec.spare)
    made: list[ClusterPod] = []
    for workload in _workloads(spec, network, nodes, rng):
        size = workload.template.requests.memory_bytes
        for number in range(workload.replicas):
            if len(made) == limit or (not spec.pods and size > memory_left):
                return made
            memory_left -= size
            room = workload.allowed[(free[workload.allowed] >= size) & (slots[workload.allowed] > 0)]
            pod = _replica(workload.template, number)
            if len(room) and rng.random() < spec.placed:
                best = room[np.argmax(free[room])]
                free[best] -= size
                slots[best] -= 1
                pod = replace(pod, node=network.names[best], phase="Running", ready=True)
            made.append(pod)
    return made


def _replica(template: ClusterPod, number: int) -> ClusterPod:
    name = f"{template.name}-{number}"
    return replace(template, uid=f"{NAMESPACE}/{name}", name=name)


def _workloads(
    spec: GeneratorSpec, network: GeneratedNetwork, nodes: list[ClusterNode], rng: np.random.Generator
) -> Iterator[_Workload]:
    """Without end."""
    tainted = np.array([bool(node.taints) for node in nodes])
    labelled = np.array([DISK[0] in node.labels for node in nodes])
    both_ms = np.maximum(network.rtt_ms, network.rtt_ms.T)
    number = 0
    while True:
        number += 1
        name = f"app-{number}"
        size = int(rng.choice(spec.sizes_bytes))
        tolerates, choosy, bounded = (rng.random() < share for share in (spec.tainted, spec.choosy, spec.bounded))
        allowed = np.flatnonzero((~tainted | tolerates) & (labelled | (not choosy)))
        labels = {"app": name}
        if bounded:
            reference, near = int(rng.integers(len(nodes))), int(rng.integers(spec.near.least, spec.near.most + 1))
            bound_ms = _bound_ms(both_ms[reference], near)
            labels[f"delay_{network.names[reference]}"] = f"{bound_ms:.3f}"
            allowed = allowed[both_ms[reference][allowed] <= bound_ms]
        template = ClusterPod(
            uid=name,
            namespace=NAMESPACE,
            name=name,
            workload=f"deployment/{name}",
            owner_kind="ReplicaSet",
            owner_uid=f"{NAMESPACE}/{name}",
            requests=Resources(max(1, spec.cpu_millis * size // spec.memory_bytes // 2), size, 1),
            labels=labels,
            constraints=PodConstraints(
                node_selector=(DISK,) if choosy else (),
                tolerations=(Toleration(SPECIAL.key, "Equal", SPECIAL.value),) if tolerates else (),
            ),
            node=UNBOUND,
        )
        yield _Workload(template, int(rng.integers(spec.replicas.least, spec.replicas.most + 1)), allowed)


def _bound_ms(to_reference_ms: Floats, near: int) -> float:
    """The least bound that this many nodes keep."""
    nearest = np.sort(to_reference_ms)[: min(near, len(to_reference_ms))]
    return float(nearest[-1])


def _inputs(spec: GeneratorSpec, network: GeneratedNetwork, rng: np.random.Generator) -> DecisionInputs:
    if spec.peers:
        return DecisionInputs(Snapshot(MappingProxyType(_agents(spec, network, rng))), Policy(), NOW)
    matrix = DelayMatrix({name: number for number, name in enumerate(network.names)}, network.rtt_ms)
    return DecisionInputs(Snapshot(), Policy(), NOW, delay_views=(matrix,))


def _agents(spec: GeneratorSpec, network: GeneratedNetwork, rng: np.random.Generator) -> dict[str, NodeState]:
    """Each node's agent has just reported its delays to random others."""
    reporters, targets = random_peers(spec.node_count, spec.peers, rng)
    windows: dict[str, dict[str, PeerLatency]] = {name: {} for name in network.names}
    for reporter, target in zip(reporters.tolist(), targets.tolist(), strict=True):
        rtt_ms = float(network.rtt_ms[reporter, target])
        windows[network.names[reporter]][network.names[target]] = PeerLatency(10, 10, rtt_ms, rtt_ms, rtt_ms, 0.0, 1.0)
    return {
        name: NodeState(
            Identity(f"agent-{name}", 1, name, f"zone-{network.zone[number]}", f"rack-{network.rack[number]}"),
            Heartbeat(1, 1, PUSH_INTERVAL_SECONDS),
            Latency(windows[name]),
            changed_at=NOW,
        )
        for number, name in enumerate(network.names)
    }
