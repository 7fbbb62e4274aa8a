"""Parses bounds from a pod's labels `delay_<from>: "<ms>"` and its annotation `leadsman.dev/delay`, and finds their
nodes.

Names are exact and may have dots; a value is a plain decimal number. An exponent is refused: nobody writes one on
purpose, and a slip would move the bound by powers of ten. What cannot be understood is never left out: it is BadBound.
"""

import re
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, Self

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from leadsman.decision.inputs import DecisionInputs, PlacedPods
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import EstimateMode
from leadsman.kube.names import (
    CRON_JOB_TIME,
    DELAY_ANNOTATION,
    DELAY_LABEL_PREFIX,
    ESTIMATE_ANNOTATION,
    REPLICAS_ANNOTATION,
)
from leadsman.runtime.text_table import one_line
from leadsman.state.records import LONGEST_PROBE_SECONDS

MAX_BOUNDS = 32
MAX_ANNOTATION_CHARACTERS = 4096

MAX_PARSED = 128
"""Texts of bounds whose bounds are kept, of up to 4 KiB and a few labels."""

_MAX_SHOWN = 63
_MILLISECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_FROM = re.compile(rf"(({_NAME}/)?[a-z][a-z0-9]*/)?{_NAME}")
_LINE = re.compile(r"([^\s:]+)\s*:\s*(\S+)((?:\s+\S+)*)")


class BadBound(ValueError):
    """A bound cannot be understood, so the pod fits nowhere. Says where it stands, what it is and what is allowed."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))


class ReplicaMode(StrEnum):
    """Says which placed pods of a workload the bound is to."""

    ALL = "all"
    """Each: a Service may send a request to any of them."""
    NEAREST = "nearest"
    """One target within the bound is enough: for clients that choose the nearest themselves."""


class DelayBound(Struct, frozen=True):
    """Limits the round trip between `reference` and the pod's node to `ms` milliseconds.

    reference: as written: `name`, `kind/name` or `namespace/kind/name`. estimate: None: the policy's.
    """

    reference: str
    ms: float
    replicas: ReplicaMode = ReplicaMode.ALL
    estimate: EstimateMode | None = None


def parse_bounds(pod: PodInfo) -> tuple[DelayBound, ...]:
    """Returns the pod's bounds, all of which must hold: labels by name, then lines in order. Raises BadBound."""
    if pod.excess:
        raise BadBound(pod.excess)
    if not pod.has_delay_bounds:
        return ()
    labels = tuple((label, value) for label, value in pod.labels.items() if label.startswith(DELAY_LABEL_PREFIX))
    text = pod.annotations.get(DELAY_ANNOTATION, "")
    return _parse(labels, text, pod.annotations.get(REPLICAS_ANNOTATION), pod.annotations.get(ESTIMATE_ANNOTATION))


@lru_cache(MAX_PARSED)
def _parse(
    labels: tuple[tuple[str, str], ...], text: str, replicas: str | None, estimate: str | None
) -> tuple[DelayBound, ...]:
    """A pod's bounds are asked for four times and more, and the pods of a workload say the same. replicas, estimate: of
    the annotations that say for all bounds of the pod which replicas count, and how estimates do."""
    defaults = DelayBound("", 0.0)
    if replicas is not None:
        defaults = _with_option(defaults, replicas, f"annotation {REPLICAS_ANNOTATION}", ReplicaMode)
    if estimate is not None:
        defaults = _with_option(defaults, estimate, f"annotation {ESTIMATE_ANNOTATION}", EstimateMode)
    found = [*_label_bounds(labels, defaults), *_annotation_bounds(text, defaults)]
    if len(found) > MAX_BOUNDS:
        raise BadBound(f"the pod has {len(found)} delay bounds; at most {MAX_BOUNDS} are allowed")
    return tuple(found)


def valid_bounds(pod: PodInfo) -> tuple[DelayBound, ...]:
    """Returns the bounds of a pod that was judged before; none when one is bad, as then every node is refused."""
    try:
        return parse_bounds(pod)
    except BadBound:
        return ()


def _label_bounds(labels: Iterable[tuple[str, str]], defaults: DelayBound) -> Iterator[DelayBound]:
    for label, value in sorted(labels):
        reference = label.removeprefix(DELAY_LABEL_PREFIX)
        if not reference:
            raise BadBound(f'label {label} names no node or workload; write delay_<node or workload>: "<ms>"')
        yield replace(defaults, reference=reference, ms=_parse_ms(value, f"label {label}"))


def _annotation_bounds(text: str, defaults: DelayBound) -> Iterator[DelayBound]:
    if len(text) > MAX_ANNOTATION_CHARACTERS:
        size = f"{len(text):,} characters; at most {MAX_ANNOTATION_CHARACTERS:,} are allowed"
        raise BadBound(f"annotation {DELAY_ANNOTATION} has {size}")
    for number, line in enumerate(text.splitlines(), start=1):
        said, place = line.partition("#")[0].strip(), f"annotation {DELAY_ANNOTATION}, line {number}"
        if not said:
            continue
        parts = _LINE.fullmatch(said)
        if not parts:
            raise BadBound(f'{place}: {_shown(said)} is not valid; write "<from>: <ms>", such as "deployment/web: 2.5"')
        if not _FROM.fullmatch(parts[1]):
            raise BadBound(f"{place}: {_shown(parts[1])} is not valid; use a name, kind/name or namespace/kind/name")
        bound = replace(defaults, reference=parts[1], ms=_parse_ms(parts[2], place))
        kinds: list[type[StrEnum]] = [ReplicaMode, EstimateMode]
        for option in parts[3].split():
            bound = _with_option(bound, option, place, *kinds)
            kinds.remove(ReplicaMode if option in list(ReplicaMode) else EstimateMode)
        yield bound


def _with_option(bound: DelayBound, option: str, place: str, *kinds: type[StrEnum]) -> DelayBound:
    if ReplicaMode in kinds and option in list(ReplicaMode):
        return replace(bound, replicas=ReplicaMode(option))
    if EstimateMode in kinds and option in list(EstimateMode):
        return replace(bound, estimate=EstimateMode(option))
    allowed = ", ".join(choice for kind in kinds for choice in kind) or "nothing more"
    raise BadBound(f"{place}: {_shown(option)} is not valid; use {allowed}")


def _parse_ms(value: str, place: str) -> float:
    if not _MILLISECONDS.fullmatch(value):
        raise BadBound(f'{place}: {_shown(value)} is not valid; use milliseconds such as "25" or "2.5"')
    if float(value) > 1e3 * LONGEST_PROBE_SECONDS:
        raise BadBound(
            f"{place}: {_shown(value)} is more than {1e3 * LONGEST_PROBE_SECONDS:g} ms, the longest measured"
        )
    return float(value)


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
"""The pods of one workload that a bound is to may stand on this many nodes: each costs a row of delays to all nodes."""

NODE_KIND = "node"


class Target(Struct, frozen=True):
    """The nodes that a bound is to. name: in reasons and explanations. nodes: each once, in order of name; none for the
    first pod of its own workload. pods: node → a pod there; none for a node."""

    name: str
    nodes: tuple[str, ...]
    replicas: ReplicaMode = ReplicaMode.ALL
    pods: Mapping[str, str] = MappingProxyType({})


class NoTarget(Struct, frozen=True):
    """Says that there is nothing to hold the bound to. reason: why."""

    reason: str

    def __post_init__(self) -> None:
        force_setattr(self, "reason", one_line(self.reason))


class TargetName(NamedTuple):
    """A target as a pod names it: `name`, `kind/name` or `namespace/kind/name`; a part that is not given is ""."""

    namespace: str
    kind: str
    name: str

    @classmethod
    def of(cls, reference: str) -> Self:
        *scope, name = reference.split("/")
        namespace, kind = ["", "", *scope][-2:]
        return cls(namespace, kind, name)


class ResolvedBound(NamedTuple):
    bound: DelayBound
    target: Target


MAX_REFERENCES = 128
"""Nodes that all bounds of a pod are to, a node of two bounds counted twice. Each costs 0.2 ms at 5,000 nodes."""


def resolve_bounds(
    bounds: Sequence[DelayBound], pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs
) -> list[ResolvedBound | NoTarget]:
    """Finds the bounds' targets, in order. A bound of the first pod of a workload to itself is left out: it holds
    everywhere. When they are too many nodes, the result is that fault alone."""
    resolved = list[ResolvedBound | NoTarget]()
    for bound in bounds:
        target = resolve_target(bound, pod, nodes, inputs)
        if isinstance(target, NoTarget):
            resolved.append(target)
        elif target.nodes:
            resolved.append(ResolvedBound(bound, target))
    references = sum(len(each.target.nodes) for each in resolved if isinstance(each, ResolvedBound))
    if references > MAX_REFERENCES:
        too_many = f"the pod's delay bounds are to {references} nodes in all; at most {MAX_REFERENCES} are allowed"
        return [NoTarget(too_many)]
    return resolved


def identity_of(resolved: Iterable[ResolvedBound | NoTarget]) -> list[Hashable]:
    """Returns what tells resolved bounds apart; equal ones have the same refusals on one view."""
    return [
        each if isinstance(each, NoTarget) else (each.bound, each.target.name, each.target.nodes) for each in resolved
    ]


def resolve_target(bound: DelayBound, pod: PodInfo, nodes: Container[str], inputs: DecisionInputs) -> Target | NoTarget:
    """Finds the nodes of a bound's target. nodes: the candidates, which exist even when nobody reported of them."""
    name = TargetName.of(bound.reference)
    if name.kind in ("", NODE_KIND) and not name.namespace and node_exists(name.name, nodes, inputs):
        return Target(name.name, (name.name,))
    if name.kind == NODE_KIND:
        return NoTarget(_missing_reason(name.name, name, inputs))
    return _resolve_workload(bound, name, pod, inputs)


def node_exists(node: str, nodes: Container[str], inputs: DecisionInputs) -> bool:
    """Tells whether a node exists. Where nodes are followed, they decide; a site off the cluster is declared. Elsewhere
    all that is said of a node counts: a dead node's records are gone from the state, and kube-scheduler does not offer
    it."""
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
    if not found:
        return NoTarget(_missing_reason(bound.reference, name, inputs))
    if len(found) > 1:
        kinds = " or ".join(sorted(found))
        way_out = f"name one with its kind in the annotation {DELAY_ANNOTATION}"
        return NoTarget(f"{name.name} is ambiguous: {kinds}; {way_out}")
    [(workload, pods)] = found.items()
    others = sorted(placed for placed in pods if placed.pod != pod.name or name.namespace not in ("", pod.namespace))
    shown = f"{name.namespace}/{workload}" if name.namespace else workload
    if not others and not _is_own_workload(name, workload, pod):
        return NoTarget(f"workload {shown} has no placed pod")
    by_node = {placed.node: placed.pod for placed in reversed(others)}
    if len(by_node) > MAX_TARGET_NODES:
        most = f"a delay bound allows at most {MAX_TARGET_NODES}"
        return NoTarget(f"workload {shown} runs on {len(by_node)} nodes; {most}")
    return Target(shown, tuple(sorted(by_node)), bound.replicas, by_node)


def _matching_workloads(name: TargetName, pod: PodInfo, inputs: DecisionInputs) -> Mapping[str, PlacedPods]:
    """Maps each kind/name to its placed pods. The pod's own workload exists, even when its first pod is not seen
    yet."""
    qualified = f"{name.kind}/{name.name}" if name.kind else name.name
    by_kind = inputs.workloads.find(name.namespace or pod.namespace, qualified)
    found = {f"{kind}/{name.name}": pods for kind, pods in by_kind.items()}
    is_own = inputs.workloads.loaded and _is_own_workload(name, pod.workload, pod)
    return {pod.workload: (), **found} if is_own else found


def _is_own_workload(name: TargetName, workload: str, pod: PodInfo) -> bool:
    """Tells whether `workload` is both what is named and the pod's own, or what made the pod's ReplicaSet or Job."""
    same = workload == pod.workload or _made(workload, pod.workload)
    same = same and workload.endswith(f"/{name.name}") and name.namespace in ("", pod.namespace)
    return same and name.kind in ("", workload.removesuffix(f"/{name.name}"))


_BUILT_IN = {"daemonset", "deployment", "job", "pod", "replicaset", "replicationcontroller", "statefulset"}
_HASH = "[bcdfghjklmnpqrstvwxz2456789]{1,10}"
"""A hash as apimachinery's rand.SafeEncodeString writes it, by which Argo's Rollouts name their ReplicaSets. A
Deployment's are told by their label (`workload_name`)."""


def _made(workload: str, owner: str) -> bool:
    """Tells whether the name of the pod's owner, as kind/name, is one that the workload gave. A bound to what only
    looks so would be left out."""
    (kind, _, name), (owner_kind, _, owner_name) = workload.partition("/"), owner.partition("/")
    if kind == "cronjob":
        return owner_kind == "job" and bool(re.fullmatch(f"{re.escape(name)}-{CRON_JOB_TIME}", owner_name))
    is_hashed = owner_kind == "replicaset" and kind not in _BUILT_IN
    return is_hashed and bool(re.fullmatch(f"{re.escape(name)}-{_HASH}", owner_name))


_NO_NODES, _NO_WORKLOADS = "no node data has arrived yet", "workloads are not listed"


def _missing_reason(reference: str, name: TargetName, inputs: DecisionInputs) -> str:
    """Says why there is nothing of this name, as far as nodes and workloads are known."""
    nodes, workloads = bool(inputs.snapshot.nodes or inputs.delay_views), inputs.workloads.loaded
    if name.kind == NODE_KIND:
        return f"no such node {reference}" if nodes else f"node {reference} cannot be looked up: {_NO_NODES}"
    if name.kind:
        return f"no such workload {reference}" if workloads else f"{reference} cannot be looked up: {_NO_WORKLOADS}"
    if nodes and workloads:
        return f"no such node or workload {reference}"
    if not (nodes or workloads):
        return f"{reference} cannot be looked up: {_NO_NODES}, and {_NO_WORKLOADS}"
    return f"no such node {reference}; {_NO_WORKLOADS}" if nodes else f"no such workload {reference}; {_NO_NODES}"
