"""Generates a cluster from a specification and a seed: racks and zones with their delays, workloads, spare capacity.

A user writes the specification as `zones=2,racks=3,nodes=4,spare=0.3,seed=7`. The same one gives the same bytes.
"""

from collections.abc import Iterator
from types import MappingProxyType
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from leadsman.cluster.model import UNBOUND, ZONE_LABEL, Cluster, ClusterNode, ClusterPod, cluster_of
from leadsman.cluster.resources import Resources
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy
from leadsman.network.measured_pairs import Floats, Indices
from leadsman.planning.backups.backup_plan import BackupSettings
from leadsman.sources.delay.matrix import DelayMatrix
from leadsman.state.records import Heartbeat, Identity, Latency, PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot

MADE_UP = "racks"
"""The name of an invented network, with the delays of a data centre region, 0.06 to 1.4 ms."""

MAX_NODES, MAX_PODS = 5_000, 200_000


class BadSpec(ValueError):
    """A specification cannot be used; the text names the field, what is given and what is allowed."""


Count = Annotated[int, Meta(ge=1, le=1000)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]


class GeneratorSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """Specifies a cluster to be made, in the words of a user; docs/replay.md says what each field means.

    peers: 0: every pair's delay is known, as from a file; n: each agent reports the delays to n others.
    pods: how many; 0: as many as leave the share `spare` of all memory free.
    sizes: memory of a workload's pods, each as likely. They request half as large a share of a node's CPU.
    """

    zones: Count = 2
    racks: Count = 2
    nodes: Annotated[int, Meta(ge=1, le=MAX_NODES)] = 5
    cpu: str = "8"
    memory: str = "16Gi"
    network: Annotated[str, Meta(min_length=1)] = MADE_UP
    peers: Annotated[int, Meta(ge=0, le=128)] = 0
    pods: Annotated[int, Meta(ge=0, le=MAX_PODS)] = 0
    spare: Share = 0.5
    sizes: str = "256Mi|512Mi|1Gi|2Gi|4Gi"
    replicas: str = "1-3"
    bounded: Share = 0.5
    near: str = "2-8"
    placed: Share = 1.0
    seed: Annotated[int, Meta(ge=0)] = 1

    def __post_init__(self) -> None:
        for name in ("replicas", "near"):
            _range(name, getattr(self, name))
        if self.node_count > MAX_NODES:
            raise ValueError(f"zones x racks x nodes are {self.node_count} nodes; allowed are {MAX_NODES}")
        if self.peers >= self.node_count:
            raise ValueError(f"peers={self.peers}: allowed is less than the {self.node_count} nodes")
        if self.cpu_millis and max(self.sizes_bytes) > self.memory_bytes:
            raise ValueError(f"sizes: {max(self.sizes_bytes)} bytes are more than a node's memory, {self.memory_bytes}")

    @property
    def node_count(self) -> int:
        """Counts all nodes together."""
        return self.zones * self.racks * self.nodes

    @property
    def cpu_millis(self) -> int:
        return _amount("cpu", self.cpu)

    @property
    def memory_bytes(self) -> int:
        return _amount("memory", self.memory)

    @property
    def sizes_bytes(self) -> list[int]:
        return [_amount("memory", each) for each in self.sizes.split("|")]


def parse_spec(text: str) -> GeneratorSpec:
    """Reads a spec, `field=value,field=value`; a field that is absent keeps its default. Raises BadSpec."""
    given: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, value = part.partition("=")
        if name in given:
            raise BadSpec(f"{part!r}: {name} is given twice; give it once")
        given[name] = value
    if given.keys() >= {"pods", "spare"}:
        raise BadSpec("pods and spare exclude each other: either the number of pods or what they leave free")
    try:
        return msgspec.convert(given, GeneratorSpec, strict=False)
    except msgspec.ValidationError as error:
        fields = ", ".join(GeneratorSpec.__struct_fields__)
        raise BadSpec(f"{error}; the fields are {fields}, see docs/replay.md") from error


def _range(name: str, text: str) -> tuple[int, int]:
    """Returns the least and the most of `2-8`, or one number twice."""
    least, _, most = text.partition("-")
    if not (least.isdecimal() and (most or least).isdecimal() and 1 <= int(least) <= int(most or least) <= MAX_NODES):
        raise ValueError(f"{name}={text}: allowed is one number or two, such as 2-8, from 1 to {MAX_NODES}")
    return int(least), int(most or least)


def _amount(resource: str, text: str) -> int:
    amount = Resources.of({resource: text}).amount(resource)
    if not 0 < amount < 1 << 60:
        raise ValueError(f"{text!r}: allowed is an amount of {resource} above 0, such as 500m or 16Gi")
    return amount


# The delays of a generated cluster, and which nodes share a rack and a zone. Milliseconds, sources as rows.

SAME_RACK_MS, SAME_ZONE_MS = (0.06, 0.12), (0.15, 0.4)
OTHER_ZONE_MS = (0.6, 1.4)
_JITTER = 0.08
"""Standard deviation of the logarithm, from pair to pair."""


class GeneratedNetwork(NamedTuple):
    """A generated network. names: of the nodes. rtt_ms: between them. rack, zone: each node's, by number."""

    names: tuple[str, ...]
    rtt_ms: Floats
    rack: Indices
    zone: Indices


def make_network(spec: GeneratorSpec, measured_ms: Floats | None, rng: np.random.Generator) -> GeneratedNetwork:
    """Makes the network of a cluster, with delays in whole microseconds.

    measured_ms: a matrix, from which nodes are drawn; None: a data centre region is made up. Raises BadSpec.
    """
    if measured_ms is None:
        rtt_ms = rack_network(spec.zones, spec.racks, spec.nodes, rng).rtt_ms.astype(float)
    else:
        rtt_ms = _neighbours_together(_drawn(spec, measured_ms, rng))
    return _named(np.round(rtt_ms, 3, out=rtt_ms), spec.racks, spec.nodes)


def rack_network(zones: int, racks_a_zone: int, nodes_a_rack: int, rng: np.random.Generator) -> GeneratedNetwork:
    """Makes a data centre region: 0.06 to 1.4 ms, set by whether two nodes share a rack, a zone or neither."""
    rack = np.repeat(np.arange(zones * racks_a_zone), nodes_a_rack)
    zone = rack // racks_a_zone
    between_zones = _symmetric(rng.uniform(*OTHER_ZONE_MS, (zones, zones)))
    between_racks = _symmetric(rng.uniform(*SAME_ZONE_MS, (rack[-1] + 1, rack[-1] + 1)))
    np.fill_diagonal(between_racks, rng.uniform(*SAME_RACK_MS, len(between_racks)))
    jitter = _symmetric(rng.normal(0, _JITTER, (len(rack), len(rack))))
    rtt_ms = np.empty(jitter.shape, np.float32)
    for node, row in enumerate(rtt_ms):  # All at once would take five times the memory of the matrix.
        same = zone == zone[node]
        row[:] = np.where(same, between_racks[rack[node], rack], between_zones[zone[node], zone]) * np.exp(jitter[node])
    np.fill_diagonal(rtt_ms, 0)
    return _named(rtt_ms, racks_a_zone, nodes_a_rack)


def random_peers(nodes: int, k: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Draws sources and targets when every node measures k random others. Raises ValueError when there are fewer."""
    if not 0 < k < nodes:
        raise ValueError(f"k {k} must be within 1..{nodes - 1} for {nodes} nodes")
    target = np.stack([rng.choice(nodes - 1, k, replace=False) for _ in range(nodes)])
    target += target >= np.arange(nodes)[:, None]
    return np.repeat(np.arange(nodes), k), target.ravel()


def _named(rtt_ms: Floats, racks_a_zone: int, nodes_a_rack: int) -> GeneratedNetwork:
    """Returns the network of these delays, filled rack by rack and zone by zone."""
    rack = np.arange(len(rtt_ms)) // nodes_a_rack
    zone = rack // racks_a_zone
    names = (f"z{zone[n]}-r{rack[n] % racks_a_zone}-n{n % nodes_a_rack}" for n in range(len(rtt_ms)))
    return GeneratedNetwork(tuple(names), rtt_ms, rack, zone)


def _symmetric(square: Floats) -> Floats:
    """Puts the upper half into the lower one, and returns the same array."""
    for number, row in enumerate(square):
        square[number:, number] = row[number:]
    return square


def _drawn(spec: GeneratorSpec, measured_ms: Floats, rng: np.random.Generator) -> Floats:
    """Draws as many of the measured nodes as are wanted."""
    if len(measured_ms) < spec.node_count:
        size = f"the matrix has {len(measured_ms)} rows"
        raise BadSpec(f"network={spec.network}: zones x racks x nodes are {spec.node_count} nodes, but {size}")
    drawn = rng.choice(len(measured_ms), spec.node_count, replace=False)
    return measured_ms[np.ix_(drawn, drawn)]


def _neighbours_together(rtt_ms: Floats) -> Floats:
    """Returns the matrix in the order of a chain from each node to the nearest one left, so that racks and zones are
    near."""
    both = np.maximum(rtt_ms, rtt_ms.T)
    order, left = [0], np.ones(len(both), bool)
    left[0] = False
    while left.any():
        nearest = int(np.argmin(np.where(left, both[order[-1]], np.inf)))
        order.append(nearest)
        left[nearest] = False
    return rtt_ms[np.ix_(order, order)]


# Nodes, pods, places and decision inputs from a specification.

POD_SLOTS = 110
NAMESPACE = "default"
PUSH_INTERVAL_SECONDS = 5.0
NOW = 0.0
"""The clock of the inputs. Nothing ages: a plan is made at one moment."""


class _Workload(Struct, frozen=True):
    """replicas pods of one template. allowed: the nodes that keep its bound."""

    template: ClusterPod
    replicas: int
    allowed: Indices


def generate(spec: GeneratorSpec, measured_ms: Floats | None = None) -> tuple[Cluster, DecisionInputs]:
    """Makes the cluster of a specification. measured_ms: the matrix that `network` names. spec.BadSpec."""
    rng = np.random.default_rng(spec.seed)
    network = make_network(spec, measured_ms, rng)
    nodes = _nodes(spec, network, rng)
    pods = _pods(spec, network, nodes, rng)
    return cluster_of(nodes, pods), _inputs(spec, network, rng)


def _nodes(spec: GeneratorSpec, network: GeneratedNetwork, rng: np.random.Generator) -> list[ClusterNode]:
    made = []
    for number, name in enumerate(network.names):
        zone, rack = f"zone-{network.zone[number]}", f"rack-{network.rack[number]}"
        labels = {"kubernetes.io/hostname": name, ZONE_LABEL: zone, BackupSettings().rack_label: rack}
        made.append(
            ClusterNode(
                name,
                uid=name,
                labels=labels,
                allocatable=Resources(spec.cpu_millis, spec.memory_bytes, POD_SLOTS),
                ready=True,
            )
        )
    return made


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
    """Makes workloads without end."""
    nearest, replicas, sizes = _range("near", spec.near), _range("replicas", spec.replicas), spec.sizes_bytes
    number = 0
    while True:
        number += 1
        name = f"app-{number}"
        size = int(rng.choice(sizes))
        allowed, labels = np.arange(len(nodes)), {"app": name}
        if rng.random() < spec.bounded:
            reference, near = int(rng.integers(len(nodes))), int(rng.integers(*nearest, endpoint=True))
            both_ms = np.maximum(network.rtt_ms[reference], network.rtt_ms[:, reference])
            bound_ms = _bound_ms(both_ms, near)
            labels[f"delay_{network.names[reference]}"] = f"{bound_ms:.3f}"
            allowed = allowed[both_ms[allowed] <= bound_ms]
        template = ClusterPod(
            uid=name,
            namespace=NAMESPACE,
            name=name,
            workload=f"deployment/{name}",
            owner_kind="ReplicaSet",
            owner_uid=f"{NAMESPACE}/{name}",
            requests=Resources(max(1, spec.cpu_millis * size // spec.memory_bytes // 2), size, 1),
            labels=labels,
            node=UNBOUND,
        )
        yield _Workload(template, int(rng.integers(*replicas, endpoint=True)), allowed)


def _bound_ms(to_reference_ms: Floats, near: int) -> float:
    """Returns the least bound that this many nodes keep."""
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
