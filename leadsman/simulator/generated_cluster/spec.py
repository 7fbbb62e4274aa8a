"""What a generated cluster is to be, as a user writes it: `zones=2,racks=3,nodes=4,spare=0.3,seed=7`."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from leadsman.cluster.resources import Resources

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
    tainted: share of the nodes with the taint dedicated=special:NoSchedule, and of the workloads that tolerate it.
    labelled: share of the nodes with the label disk=ssd. choosy: share of the workloads that want it.
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
    tainted: float = 0.0
    labelled: float = 0.0
    choosy: float = 0.0
    seed: int = 1

    @property
    def node_count(self) -> int:
        """All nodes together."""
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
    "tainted": Field("tainted", *_SHARE),
    "labelled": Field("labelled", *_SHARE),
    "choosy": Field("choosy", *_SHARE),
    "seed": Field("seed", *_whole(0, 2**63 - 1)),
}
"""Name, as a user writes it → the field. docs/snapshot.md says what each means."""
