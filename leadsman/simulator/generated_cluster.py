"""A generated cluster: racks and zones with their delays, workloads, spare capacity, from a specification and a seed.

A user writes the specification as `zones=2,racks=3,nodes=4,spare=0.3,seed=7`. The same one gives the same bytes.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.model import UNBOUND, Cluster, cluster_of
from leadsman.cluster.node import ZONE_LABEL, ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy
from leadsman.network.measured_pairs import Floats, Indices
from leadsman.planning.backups.backup_plan import BackupSettings
from leadsman.sources.delay.matrix import DelayMatrix
from leadsman.state.records import Heartbeat, Identity, Latency, PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot

MADE_UP = "racks"
"""As network: the delays of a data centre region, 0.06 to 1.4 ms."""

MAX_NODES, MAX_PODS = 5_000, 200_000


class BadSpec(ValueError):
    """A specification cannot be used. Names the field, what is given and what is allowed."""


class Range(NamedTuple):
    """From the least to the most, both included."""

    least: int
    most: int


class GeneratorSpec(Struct, frozen=True):
    """A cluster to be made.

    zones; racks: in each zone; nodes: in each rack.
    cpu_millis, memory_bytes: of a node.
    network: MADE_UP, or the file of a measured matrix, from which nodes are drawn.
    peers: 0: every pair's delay is known, as from a file; n: each agent reports the delays to n others.
    pods: how many; 0: as many as leave the share `spare` of all memory free.
    sizes_bytes: memory of a workload's pods, each as likely. They request half as large a share of a node's CPU.
    replicas: pods of a workload.
    bounded: share of the workloads with a delay bound to a node, which `near` nodes keep.
    placed: share of the pods that have a node already.
    """

    zones: int = 2
    racks: int = 2
    nodes: int = 5
    cpu_millis: int = 8_000
    memory_bytes: int = 16 << 30
    network: str = MADE_UP
    peers: int = 0
    pods: int = 0
    spare: float = 0.5
    sizes_bytes: tuple[int, ...] = tuple(256 << 20 << step for step in range(5))
    replicas: Range = Range(1, 3)
    bounded: float = 0.5
    near: Range = Range(2, 8)
    placed: float = 1.0
    seed: int = 1

    @property
    def node_count(self) -> int:
        """Returns all nodes together."""
        return self.zones * self.racks * self.nodes


def parse_spec(text: str) -> GeneratorSpec:
    """Reads `field=value,field=value`; a field that is absent keeps its default. BadSpec."""
    given: dict[str, Any] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, value = part.partition("=")
        if name not in FIELDS:
            raise BadSpec(f"{part!r}: {name!r} is no field; allowed are {', '.join(FIELDS)}")
        if FIELDS[name].attribute in given:
            raise BadSpec(f"{part!r}: {name} is given twice; give it once")
        given[FIELDS[name].attribute] = _parsed(part, value, FIELDS[name])
    if given.get("pods") and "spare" in given:
        raise BadSpec("pods and spare exclude each other: either the number of pods or what they leave free")
    return _checked(GeneratorSpec(**given))


def _parsed(part: str, value: str, field: "Field") -> Any:
    try:
        return field.parse(value)
    except ValueError as error:
        raise BadSpec(f"{part!r}: allowed is {field.allowed}") from error


def _checked(spec: GeneratorSpec) -> GeneratorSpec:
    if spec.node_count > MAX_NODES:
        raise BadSpec(f"zones x racks x nodes are {spec.node_count} nodes; allowed are {MAX_NODES}")
    if spec.peers >= spec.node_count:
        raise BadSpec(f"peers={spec.peers}: allowed is less than the {spec.node_count} nodes")
    if max(spec.sizes_bytes) > spec.memory_bytes:
        raise BadSpec(f"sizes: {max(spec.sizes_bytes)} bytes are more than a node's memory, {spec.memory_bytes}")
    return spec


class Field(NamedTuple):
    """A field as a user writes it. attribute: of GeneratorSpec. parse: ValueError for what is not allowed."""

    attribute: str
    parse: Callable[[str], Any]
    allowed: str


def _whole(least: int, most: int) -> tuple[Callable[[str], int], str]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and least <= int(text) <= most):
            raise ValueError(text)
        return int(text)

    return parse, f"a whole number from {least} to {most}"


def _share(text: str) -> float:
    if not 0.0 <= float(text) <= 1.0:
        raise ValueError(text)
    return float(text)


def _range(text: str) -> Range:
    parse, _ = _whole(1, MAX_NODES)
    least, _, most = text.partition("-")
    parsed = Range(parse(least), parse(most or least))
    if parsed.least > parsed.most:
        raise ValueError(text)
    return parsed


def _amount(resource: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        amount = Resources.of({resource: text}).amount(resource)
        if not 0 < amount < 1 << 60:
            raise ValueError(text)
        return amount

    return parse


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(map(_amount("memory"), text.split("|")))


def _name(text: str) -> str:
    if not text:
        raise ValueError(text)
    return text


_SHARE = (_share, "a share from 0 to 1")
_RANGE = (_range, f"one number or two, such as 2-8, from 1 to {MAX_NODES}")

FIELDS: Mapping[str, Field] = {
    "zones": Field("zones", *_whole(1, 1000)),
    "racks": Field("racks", *_whole(1, 1000)),
    "nodes": Field("nodes", *_whole(1, MAX_NODES)),
    "cpu": Field("cpu_millis", _amount("cpu"), "an amount of CPU above 0, such as 8 or 500m"),
    "memory": Field("memory_bytes", _amount("memory"), "an amount of memory above 0, such as 16Gi"),
    "network": Field("network", _name, f"{MADE_UP}, or the file of a matrix"),
    "peers": Field("peers", *_whole(0, 128)),
    "pods": Field("pods", *_whole(0, MAX_PODS)),
    "spare": Field("spare", *_SHARE),
    "sizes": Field("sizes_bytes", _sizes, "amounts of memory above 0, such as 256Mi|1Gi"),
    "replicas": Field("replicas", *_RANGE),
    "bounded": Field("bounded", *_SHARE),
    "near": Field("near", *_RANGE),
    "placed": Field("placed", *_SHARE),
    "seed": Field("seed", *_whole(0, 2**63 - 1)),
}
"""Name, as a user writes it → the field. docs/snapshot.md says what each means."""


# The delays of a generated cluster, and which nodes share a rack and a zone. Milliseconds, sources as rows.

SAME_RACK_MS, SAME_ZONE_MS = (0.06, 0.12), (0.15, 0.4)
OTHER_ZONE_MS = (0.6, 1.4)
_JITTER = 0.08
"""Standard deviation of the logarithm, from pair to pair."""


class GeneratedNetwork(NamedTuple):
    """names: of the nodes. rtt_ms: between them. rack, zone: each node's, by number."""

    names: tuple[str, ...]
    rtt_ms: Floats
    rack: Indices
    zone: Indices


def make_network(spec: GeneratorSpec, measured_ms: Floats | None, rng: np.random.Generator) -> GeneratedNetwork:
    """Makes the network of a cluster, with delays in whole microseconds.

    measured_ms: a matrix, from which nodes are drawn; None: a data centre region is made up. BadSpec.
    """
    if measured_ms is None:
        rtt_ms = rack_network(spec.zones, spec.racks, spec.nodes, rng).rtt_ms.astype(float)
    else:
        rtt_ms = _neighbours_together(_drawn(spec, measured_ms, rng))
    return _named(np.round(rtt_ms, 3), spec.racks, spec.nodes)


def rack_network(zones: int, racks_a_zone: int, nodes_a_rack: int, rng: np.random.Generator) -> GeneratedNetwork:
    """A data centre region: 0.06 to 1.4 ms, set by whether two nodes share a rack, a zone or neither."""
    rack = np.repeat(np.arange(zones * racks_a_zone), nodes_a_rack)
    zone = rack // racks_a_zone
    between_zones = _symmetric(rng.uniform(*OTHER_ZONE_MS, (zones, zones)))
    between_racks = _symmetric(rng.uniform(*SAME_ZONE_MS, (rack[-1] + 1, rack[-1] + 1)))
    np.fill_diagonal(between_racks, rng.uniform(*SAME_RACK_MS, len(between_racks)))
    same = zone[:, None] == zone
    rtt_ms = np.where(same, between_racks[rack[:, None], rack], between_zones[zone[:, None], zone])
    rtt_ms = rtt_ms * np.exp(_symmetric(rng.normal(0, _JITTER, rtt_ms.shape)))
    np.fill_diagonal(rtt_ms, 0)
    return _named(rtt_ms.astype(np.float32), racks_a_zone, nodes_a_rack)


def random_peers(nodes: int, k: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Sources and targets when every node measures k random others. ValueError when there are fewer."""
    if not 0 < k < nodes:
        raise ValueError(f"k {k} must be within 1..{nodes - 1} for {nodes} nodes")
    target = np.stack([rng.choice(nodes - 1, k, replace=False) for _ in range(nodes)])
    target += target >= np.arange(nodes)[:, None]
    return np.repeat(np.arange(nodes), k), target.ravel()


def _named(rtt_ms: Floats, racks_a_zone: int, nodes_a_rack: int) -> GeneratedNetwork:
    """The network of these delays, filled rack by rack and zone by zone."""
    rack = np.arange(len(rtt_ms)) // nodes_a_rack
    zone = rack // racks_a_zone
    names = (f"z{zone[n]}-r{rack[n] % racks_a_zone}-n{n % nodes_a_rack}" for n in range(len(rtt_ms)))
    return GeneratedNetwork(tuple(names), rtt_ms, rack, zone)


def _symmetric(square: Floats) -> Floats:
    upper = np.triu(square)
    return upper + np.triu(square, 1).T


def _drawn(spec: GeneratorSpec, measured_ms: Floats, rng: np.random.Generator) -> Floats:
    """As many of the measured nodes as are wanted."""
    if len(measured_ms) < spec.node_count:
        size = f"the matrix has {len(measured_ms)} rows"
        raise BadSpec(f"network={spec.network}: zones x racks x nodes are {spec.node_count} nodes, but {size}")
    drawn = rng.choice(len(measured_ms), spec.node_count, replace=False)
    return measured_ms[np.ix_(drawn, drawn)]


def _neighbours_together(rtt_ms: Floats) -> Floats:
    """The matrix in the order of a chain from each node to the nearest one left, so that racks and zones are near."""
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
    """The cluster of a specification. measured_ms: the matrix that `network` names. spec.BadSpec."""
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
    """Without end."""
    both_ms = np.maximum(network.rtt_ms, network.rtt_ms.T)
    number = 0
    while True:
        number += 1
        name = f"app-{number}"
        size = int(rng.choice(spec.sizes_bytes))
        allowed, labels = np.arange(len(nodes)), {"app": name}
        if rng.random() < spec.bounded:
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
