"""A pod's labels `delay_<from>: "<ms>"` and its annotation `leadsman.dev/delay` → bounds.

Names are exact and may have dots; a value is a plain decimal number. An exponent is refused: nobody writes one on
purpose, and a slip would move the bound by powers of ten. What cannot be understood is never left out: it is BadBound.
"""

import re
from collections.abc import Container, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, Self, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr

from leadsman.decision.inputs import DecisionInputs, PlacedPods
from leadsman.decision.model import PodInfo, one_line
from leadsman.decision.policy import EstimateMode
from leadsman.kube.names import DELAY_ANNOTATION, DELAY_LABEL_PREFIX, ESTIMATE_ANNOTATION, REPLICAS_ANNOTATION
from leadsman.state.records import LONGEST_PROBE_SECONDS

MAX_BOUNDS = 32
MAX_ANNOTATION_CHARACTERS = 4096

MAX_PARSED = 128
"""Texts of bounds whose bounds are kept, of up to 4 KiB and a few labels."""

_Pairs = tuple[tuple[str, str], ...]
"""Labels and their values."""

_Options = tuple[str | None, str | None]
"""The annotations that say for all bounds of a pod which replicas count, and how estimates do."""

_MAX_SHOWN = 63
_MILLISECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_FROM = re.compile(rf"(({_NAME}/)?[a-z][a-z0-9]*/)?{_NAME}")
_LINE = re.compile(r"([^\s:]+)\s*:\s*(\S+)((?:\s+\S+)*)")

OptionT = TypeVar("OptionT", bound=StrEnum)


class BadBound(ValueError):
    """A bound cannot be understood, so the pod fits nowhere. Names the place, what stands there and what is allowed."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))


class ReplicaMode(StrEnum):
    """Which placed pods of a workload the bound is to."""

    ALL = "all"
    """Each: a Service may send a request to any of them."""
    NEAREST = "nearest"
    """At least one: for clients that choose the nearest themselves."""


class DelayBound(Struct, frozen=True):
    """At most `ms` milliseconds of round trip between `reference` and the pod's node.

    reference: as written: `name`, `kind/name` or `namespace/kind/name`. estimate: None: the policy's.
    """

    reference: str
    ms: float
    replicas: ReplicaMode = ReplicaMode.ALL
    estimate: EstimateMode | None = None


def parse_bounds(pod: PodInfo) -> tuple[DelayBound, ...]:
    """The bounds of a pod, all of which must hold: labels by name, then lines in order. Raises BadBound."""
    if pod.excess:
        raise BadBound(pod.excess)
    labels = tuple((label, value) for label, value in pod.labels.items() if label.startswith(DELAY_LABEL_PREFIX))
    text = pod.annotations.get(DELAY_ANNOTATION, "")
    if not labels and not text:
        return ()
    options = pod.annotations.get(REPLICAS_ANNOTATION), pod.annotations.get(ESTIMATE_ANNOTATION)
    return _parse(labels, text, options)


@lru_cache(MAX_PARSED)
def _parse(labels: _Pairs, text: str, options: _Options) -> tuple[DelayBound, ...]:
    """A pod's bounds are asked for four times and more, and the pods of a workload say the same."""
    return _within_limits([*_label_bounds(labels, options), *_annotation_bounds(text, options)])


def valid_bounds(pod: PodInfo) -> tuple[DelayBound, ...]:
    """The bounds of a pod that was judged before; none when one is bad, as then every node is refused."""
    try:
        return parse_bounds(pod)
    except BadBound:
        return ()


def _within_limits(found: list[DelayBound]) -> tuple[DelayBound, ...]:
    if len(found) > MAX_BOUNDS:
        raise BadBound(f"the pod has {len(found)} delay bounds; at most {MAX_BOUNDS} are allowed")
    return tuple(found)


def _label_bounds(labels: _Pairs, options: _Options) -> Iterator[DelayBound]:
    for label, value in sorted(labels):
        reference = label.removeprefix(DELAY_LABEL_PREFIX)
        if not reference:
            raise BadBound(f'label {label} names no node or workload; write delay_<node or workload>: "<ms>"')
        yield DelayBound(reference, _parse_ms(value, f"label {label}"), *_defaults(options))


def _annotation_bounds(text: str, options: _Options) -> Iterator[DelayBound]:
    if len(text) > MAX_ANNOTATION_CHARACTERS:
        size = f"{len(text):,} characters; at most {MAX_ANNOTATION_CHARACTERS:,} are allowed"
        raise BadBound(f"annotation {DELAY_ANNOTATION} has {size}")
    for number, line in enumerate(text.splitlines(), start=1):
        said = line.partition("#")[0].strip()
        if said:
            yield _parse_line(said, f"annotation {DELAY_ANNOTATION}, line {number}", *_defaults(options))


def _parse_line(said: str, place: str, replicas: ReplicaMode, estimate: EstimateMode | None) -> DelayBound:
    parts = _LINE.fullmatch(said)
    if not parts:
        raise BadBound(f'{place}: {_shown(said)} is not valid; write "<from>: <ms>", such as "deployment/web: 2.5"')
    reference, value, options = parts[1], parts[2], parts[3].split()
    if not _FROM.fullmatch(reference):
        raise BadBound(f"{place}: {_shown(reference)} is not valid; use a name, kind/name or namespace/kind/name")
    for option in options:
        replicas, estimate = _apply_option(option, place, replicas, estimate)
    return DelayBound(reference, _parse_ms(value, place), replicas, estimate)


def _apply_option(
    option: str, place: str, replicas: ReplicaMode, estimate: EstimateMode | None
) -> tuple[ReplicaMode, EstimateMode | None]:
    if option in list(ReplicaMode):
        return ReplicaMode(option), estimate
    if option in list(EstimateMode):
        return replicas, EstimateMode(option)
    raise BadBound(f"{place}: {_shown(option)} is not valid; use {_allowed([*ReplicaMode, *EstimateMode])}")


def _defaults(options: _Options) -> tuple[ReplicaMode, EstimateMode | None]:
    replicas, estimate = options
    return (
        _annotation_option(REPLICAS_ANNOTATION, ReplicaMode, replicas) or ReplicaMode.ALL,
        _annotation_option(ESTIMATE_ANNOTATION, EstimateMode, estimate),
    )


def _annotation_option(annotation: str, kind: type[OptionT], value: str | None) -> OptionT | None:
    if value is None or value in list(kind):
        return None if value is None else kind(value)
    raise BadBound(f"annotation {annotation}: {_shown(value)} is not valid; use {_allowed(list(kind))}")


def _parse_ms(value: str, place: str) -> float:
    if not _MILLISECONDS.fullmatch(value):
        raise BadBound(f'{place}: {_shown(value)} is not valid; use milliseconds such as "25" or "2.5"')
    if float(value) > 1e3 * LONGEST_PROBE_SECONDS:
        raise BadBound(
            f"{place}: {_shown(value)} is more than {1e3 * LONGEST_PROBE_SECONDS:g} ms, the longest measured"
        )
    return float(value)


def _allowed(choices: list[StrEnum] | list[OptionT]) -> str:
    return ", ".join(choices)


def _shown(value: str) -> str:
    return f'"{value}"' if len(value) <= _MAX_SHOWN else f'"{value[:_MAX_SHOWN]}…"'


# What a bound is to: a node, or the nodes where a workload's pods run.
#
# A node's name comes before a workload's: adding a workload never changes what a bound to a node means, and a
# workload named like a node can be written with its kind. A pod may name its own workload; while no other pod of it
# is placed the bound holds everywhere, as kube-scheduler does it for a pod that matches its own affinity, or the
# first would never be placed.
# https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity

MAX_TARGET_NODES = 16
"""That the pods of one workload may stand on: each costs a row of delays to all nodes."""

NODE_KIND = "node"


class Target(Struct, frozen=True):
    """name: in reasons and explanations. nodes: each once, in order of name; none for the first pod of its own
    workload. pods: node → a pod there; none for a node."""

    name: str
    nodes: tuple[str, ...]
    replicas: ReplicaMode = ReplicaMode.ALL
    pods: Mapping[str, str] = MappingProxyType({})


class NoTarget(Struct, frozen=True):
    """There is nothing to hold the bound to; reason: why."""

    reason: str

    def __post_init__(self) -> None:
        force_setattr(self, "reason", one_line(self.reason))


class TargetName(NamedTuple):
    """`name`, `kind/name` or `namespace/kind/name`; "" where nothing is said."""

    namespace: str
    kind: str
    name: str

    @classmethod
    def of(cls, reference: str) -> Self:
        *scope, name = reference.split("/")
        namespace, kind = ["", "", *scope][-2:]
        return cls(namespace, kind, name)


def resolve_target(bound: DelayBound, pod: PodInfo, nodes: Container[str], inputs: DecisionInputs) -> Target | NoTarget:
    """nodes: those asked about, which exist even when nobody reported of them."""
    name = TargetName.of(bound.reference)
    if name.kind in ("", NODE_KIND) and not name.namespace and _exists(name.name, nodes, inputs):
        return Target(name.name, (name.name,))
    return (
        NoTarget(_no_node_reason(name.name, inputs))
        if name.kind == NODE_KIND
        else _resolve_workload(bound, name, pod, inputs)
    )


def _exists(node: str, nodes: Container[str], inputs: DecisionInputs) -> bool:
    """Where nodes are followed, they decide; a site off the cluster is declared. Elsewhere all that is said of a node
    counts: a dead node's records are gone from the state, and kube-scheduler does not offer it."""
    if inputs.node_roles:
        return node in inputs.node_roles or node in nodes or node in inputs.policy.delay.sites
    return (
        node in inputs.snapshot.nodes
        or any(node in source.nodes for source in inputs.delay_views)
        or node in nodes
        or node in inputs.last_round_trips
    )


def _resolve_workload(bound: DelayBound, name: TargetName, pod: PodInfo, inputs: DecisionInputs) -> Target | NoTarget:
    found = _matching_workloads(name, pod, inputs)
    if len(found) != 1:
        return NoTarget(_ambiguous_reason(name, found) if found else _no_workload_reason(bound.reference, name, inputs))
    [(workload, pods)] = found.items()
    others = tuple(placed for placed in pods if placed.pod != pod.name or name.namespace not in ("", pod.namespace))
    shown = f"{name.namespace}/{workload}" if name.namespace else workload
    if not others and not _is_own_workload(name, workload, pod):
        return NoTarget(f"workload {shown} has no placed pod")
    return _workload_target(shown, others, bound.replicas)


def _matching_workloads(name: TargetName, pod: PodInfo, inputs: DecisionInputs) -> Mapping[str, PlacedPods]:
    """kind/name → placed pods. The pod's own workload exists, even when its first pod is not seen yet."""
    qualified = f"{name.kind}/{name.name}" if name.kind else name.name
    by_kind = inputs.workloads.find(name.namespace or pod.namespace, qualified)
    found = {f"{kind}/{name.name}": pods for kind, pods in by_kind.items()}
    return (
        {pod.workload: (), **found} if inputs.workloads.loaded and _is_own_workload(name, pod.workload, pod) else found
    )


def _is_own_workload(name: TargetName, workload: str, pod: PodInfo) -> bool:
    """Tells whether `workload` is both what is named and the pod's own."""
    same = workload == pod.workload and workload.endswith(f"/{name.name}") and name.namespace in ("", pod.namespace)
    return same and name.kind in ("", workload.removesuffix(f"/{name.name}"))


def _workload_target(shown: str, pods: PlacedPods, replicas: ReplicaMode) -> Target | NoTarget:
    by_node = {placed.node: placed.pod for placed in sorted(pods, reverse=True)}
    if len(by_node) > MAX_TARGET_NODES:
        return NoTarget(
            f"workload {shown} runs on {len(by_node)} nodes; a delay bound allows at most {MAX_TARGET_NODES}"
        )
    return Target(shown, tuple(sorted(by_node)), replicas, by_node)


def _ambiguous_reason(name: TargetName, found: Mapping[str, PlacedPods]) -> str:
    candidates = " or ".join(sorted(found))
    return f"{name.name} is ambiguous: {candidates}; name one with its kind in the annotation {DELAY_ANNOTATION}"


_NO_NODES, _NO_WORKLOADS = "no node data has arrived yet", "workloads are not listed yet"


def _no_node_reason(node: str, inputs: DecisionInputs) -> str:
    return f"no such node {node}" if _nodes_loaded(inputs) else f"node {node} cannot be looked up: {_NO_NODES}"


def _no_workload_reason(reference: str, name: TargetName, inputs: DecisionInputs) -> str:
    nodes, workloads = _nodes_loaded(inputs), inputs.workloads.loaded
    if name.kind:
        return f"no such workload {reference}" if workloads else f"{reference} cannot be looked up: {_NO_WORKLOADS}"
    if nodes and workloads:
        return f"no such node or workload {reference}"
    if not (nodes or workloads):
        return f"{reference} cannot be looked up: {_NO_NODES}, and {_NO_WORKLOADS}"
    return f"no such node {reference}; {_NO_WORKLOADS}" if nodes else f"no such workload {reference}; {_NO_NODES}"


def _nodes_loaded(inputs: DecisionInputs) -> bool:
    return bool(inputs.snapshot.nodes or inputs.delay_views)
