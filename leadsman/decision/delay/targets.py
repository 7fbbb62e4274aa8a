"""What a bound is to: a node, or the nodes where a workload's pods run.

A node's name comes before a workload's: adding a workload never changes what a bound to a node means, and a workload
named like a node can be written with its kind. A pod may name its own workload; while no other pod of it is placed the
bound holds everywhere, as kube-scheduler does it for a pod that matches its own affinity, or the first would wait for
ever. https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
"""

from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import NamedTuple, Self

from msgspec import Struct

from leadsman.decision.delay.bounds import DelayBound, ReplicaMode
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.workloads import PlacedPods
from leadsman.kube.names import DELAY_ANNOTATION

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
    """A dead node's records are gone from the state, and kube-scheduler does not offer it."""
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
    """Whether `workload` is both what is named and the pod's own."""
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
