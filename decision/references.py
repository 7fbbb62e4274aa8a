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

from decision.bounds import LINES, Bound, Replicas
from decision.model import Facts, Pod
from decision.places import Pods

MOST_NODES = 16
"""That the pods of one workload may stand on: each costs a row of delays to all nodes."""

NODE = "node"


class Referent(Struct, frozen=True):
    """name: in reasons and explanations. nodes: each once, in order of name; none for the first pod of its own
    workload. pods: node → a pod there; none for a node."""

    name: str
    nodes: tuple[str, ...]
    replicas: Replicas = Replicas.ALL
    pods: Mapping[str, str] = MappingProxyType({})


class Missing(Struct, frozen=True):
    """There is nothing to hold the bound to; reason: why."""

    reason: str


class Name(NamedTuple):
    """`name`, `kind/name` or `namespace/kind/name`; "" where nothing is said."""

    namespace: str
    kind: str
    name: str

    @classmethod
    def of(cls, reference: str) -> Self:
        *scope, name = reference.split("/")
        namespace, kind = ["", "", *scope][-2:]
        return cls(namespace, kind, name)


def resolve(bound: Bound, pod: Pod, nodes: Container[str], facts: Facts) -> Referent | Missing:
    """nodes: those asked about, which exist even when nobody reported of them."""
    name = Name.of(bound.reference)
    if name.kind in ("", NODE) and not name.namespace and _exists(name.name, nodes, facts):
        return Referent(name.name, (name.name,))
    return Missing(_no_node(name.name, facts)) if name.kind == NODE else _workload(bound, name, pod, facts)


def _exists(node: str, nodes: Container[str], facts: Facts) -> bool:
    return node in facts.snapshot.nodes or any(node in source.nodes for source in facts.delays) or node in nodes


def _workload(bound: Bound, name: Name, pod: Pod, facts: Facts) -> Referent | Missing:
    found = _found(name, pod, facts)
    if len(found) != 1:
        return Missing(_several(name, found) if found else _no_workload(bound.reference, name, facts))
    [(workload, pods)] = found.items()
    others = tuple(placed for placed in pods if placed.pod != pod.name or name.namespace not in ("", pod.namespace))
    shown = f"{name.namespace}/{workload}" if name.namespace else workload
    if not others and not _own(name, workload, pod):
        return Missing(f"workload {shown} has no placed pod")
    return _placed(shown, others, bound.replicas)


def _found(name: Name, pod: Pod, facts: Facts) -> Mapping[str, Pods]:
    """kind/name → placed pods. The pod's own workload exists, even when its first pod is not seen yet."""
    qualified = f"{name.kind}/{name.name}" if name.kind else name.name
    by_kind = facts.places.find(name.namespace or pod.namespace, qualified)
    found = {f"{kind}/{name.name}": pods for kind, pods in by_kind.items()}
    return {pod.workload: (), **found} if facts.places.known and _own(name, pod.workload, pod) else found


def _own(name: Name, workload: str, pod: Pod) -> bool:
    """Whether `workload` is both what is named and the pod's own."""
    same = workload == pod.workload and workload.endswith(f"/{name.name}") and name.namespace in ("", pod.namespace)
    return same and name.kind in ("", workload.removesuffix(f"/{name.name}"))


def _placed(shown: str, pods: Pods, replicas: Replicas) -> Referent | Missing:
    by_node = {placed.node: placed.pod for placed in sorted(pods, reverse=True)}
    if len(by_node) > MOST_NODES:
        return Missing(f"workload {shown} stands on {len(by_node)} nodes, a delay bound takes at most {MOST_NODES}")
    return Referent(shown, tuple(sorted(by_node)), replicas, by_node)


def _several(name: Name, found: Mapping[str, Pods]) -> str:
    return f"{name.name} may be {' or '.join(sorted(found))}, want one of them in the annotation {LINES}"


def _no_node(node: str, facts: Facts) -> str:
    return f"no such node {node}" if _nodes_known(facts) else f"no node is known yet, so neither is {node}"


def _no_workload(reference: str, name: Name, facts: Facts) -> str:
    nodes, workloads = _nodes_known(facts), facts.places.known
    if name.kind:
        return f"no such workload {reference}" if workloads else f"no workload is known yet, so neither is {reference}"
    if nodes and workloads:
        return f"no such node or workload {reference}"
    if not (nodes or workloads):
        return f"no node and no workload is known yet, so neither is {reference}"
    known, unknown = ("node", "workload") if nodes else ("workload", "node")
    return f"no such {known} {reference}, and no {unknown} is known yet"


def _nodes_known(facts: Facts) -> bool:
    return bool(facts.snapshot.nodes or facts.delays)
