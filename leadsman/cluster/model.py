"""Models the cluster at one moment, and derives another one from it."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.budgets import DisruptionBudget, Quota
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import ZERO, Resources
from leadsman.cluster.storage import NO_STORAGE, NamespacedName, Storage

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")


class Overlay(Mapping[K, V], Generic[K, V]):
    """An immutable mapping: `base` with `changes` laid over it. A change costs as much as there are changes.

    changes: key → its value now; None: the key is gone. Once their number squared exceeds the base's size, they become
    part of a new base, so that neither copying them nor copying the base is ever expensive.
    """

    __slots__ = ("_remembered", "_size", "base", "changes")

    def __init__(self, base: Mapping[K, V]):
        self.base = base
        self.changes: Mapping[K, V | None] = {}
        self._remembered: dict[Hashable, Any] = {}
        self._size = -1

    def replaced(self, changes: Mapping[K, V | None]) -> "Overlay[K, V]":
        """Returns the mapping with these changes; None removes a key."""
        if not changes:
            return self
        merged = {**self.changes, **changes}
        if len(merged) ** 2 > len(self.base):
            return Overlay(_merged(self.base, merged))
        overlay = Overlay(self.base)
        overlay.changes, overlay._remembered = merged, self._remembered
        return overlay

    def of_base(self, key: Hashable, compute: Callable[[Mapping[K, V]], R]) -> R:
        """Returns what `compute` makes of the base, kept under `key` for every mapping that shares the base."""
        if key not in self._remembered:
            self._remembered[key] = compute(self.base)
        remembered: R = self._remembered[key]
        return remembered

    def __getitem__(self, key: K) -> V:
        if key not in self.changes:
            return self.base[key]
        value = self.changes[key]
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self.changes[key] is not None if key in self.changes else key in self.base  # type: ignore[index]

    def __iter__(self) -> Iterator[K]:
        """Returns those of the base in its order, then the added ones."""
        changes = self.changes
        yield from (key for key in self.base if key not in changes or changes[key] is not None)
        yield from (key for key, value in changes.items() if value is not None and key not in self.base)

    def __len__(self) -> int:
        if self._size < 0:
            self._size = sum(1 for _ in self) if self.changes else len(self.base)
        return self._size


def _merged(base: Mapping[K, V], changes: Mapping[K, V | None]) -> dict[K, V]:
    merged = dict(base)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


UNBOUND = ""
"""The node of a pod that has none."""


class NodePods(Struct, frozen=True):
    """The pods of one node, and what they request together."""

    pods: tuple[ClusterPod, ...] = ()
    requested: Resources = ZERO


_NO_PODS = NodePods()


class Cluster(Struct, frozen=True, kw_only=True, eq=False):
    """The cluster at one moment. Build one by `cluster_of`, and derive others from it: they share what is the same.

    nodes: name → node.
    pods: UID → pod that has not finished, bound or not; also on nodes that no longer exist.
    pods_by_node: name → its pods. UNBOUND has those without a node.
    namespaces: name → labels.
    budgets, quotas: of all namespaces.
    """

    nodes: Overlay[str, ClusterNode]
    pods: Overlay[str, ClusterPod]
    pods_by_node: Overlay[str, NodePods]
    budgets: Mapping[NamespacedName, DisruptionBudget] = {}
    quotas: Mapping[NamespacedName, Quota] = {}
    storage: Storage = NO_STORAGE
    namespaces: Mapping[str, Mapping[str, str]] = {}

    def pods_on(self, node: str) -> tuple[ClusterPod, ...]:
        """Returns the pods that are bound to the node, including those that are being deleted."""
        return self.pods_by_node.get(node, _NO_PODS).pods

    @property
    def unbound_pods(self) -> tuple[ClusterPod, ...]:
        """Returns the pods that have no node yet."""
        return self.pods_on(UNBOUND)

    def requested(self, node: str) -> Resources:
        """Returns what the node's pods request together, including those that are being deleted."""
        return self.pods_by_node.get(node, _NO_PODS).requested

    def free(self, node: str) -> Resources:
        """Returns what the node's pods leave of its allocatable; it is negative where overcommitted. Raises
        KeyError."""
        return self.nodes[node].allocatable - self.requested(node)

    def budgets_of(self, pod: ClusterPod) -> tuple[DisruptionBudget, ...]:
        """Returns the budgets that limit the pod's eviction. The Eviction API refuses a pod that has more than one."""
        return tuple(budget for budget in self.budgets.values() if budget.covers(pod))

    def with_pod(self, pod: ClusterPod, node: str) -> "Cluster":
        """Returns the cluster with this pod on this node, whether it is new, unbound or comes from another node."""
        return self.changed(pods={pod.uid: replace(pod, node=node)})

    def without_pod(self, uid: str) -> "Cluster":
        return self.changed(pods={uid: None})

    def changed(
        self, nodes: Mapping[str, ClusterNode | None] | None = None, pods: Mapping[str, ClusterPod | None] | None = None
    ) -> "Cluster":
        """Returns the cluster with these nodes by name and pods by UID; None removes one."""
        return replace(
            self,
            nodes=self.nodes.replaced(nodes or {}),
            pods=self.pods.replaced(pods or {}),
            pods_by_node=self.pods_by_node.replaced(self._changed_node_pods(pods or {})),
        )

    def _changed_node_pods(self, pods: Mapping[str, ClusterPod | None]) -> dict[str, NodePods | None]:
        arriving: dict[str, list[ClusterPod]] = defaultdict(list)
        for uid, pod in pods.items():
            before = self.pods.get(uid)
            if before is not None:
                arriving[before.node]  # a node that loses a pod is computed again too
            if pod is not None:
                arriving[pod.node].append(pod)
        changed: dict[str, NodePods | None] = {}
        for node, added in arriving.items():
            staying = [pod for pod in self.pods_on(node) if pod.uid not in pods]
            changed[node] = _node_pods([*staying, *added])
        return changed


def cluster_of(
    nodes: Iterable[ClusterNode],
    pods: Iterable[ClusterPod],
    *,
    budgets: Iterable[DisruptionBudget] = (),
    quotas: Iterable[Quota] = (),
    storage: Storage = NO_STORAGE,
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
) -> Cluster:
    """Builds the cluster of these objects."""
    by_uid = {pod.uid: pod for pod in pods}
    by_node: dict[str, list[ClusterPod]] = defaultdict(list)
    for pod in by_uid.values():
        by_node[pod.node].append(pod)
    return Cluster(
        nodes=Overlay({node.name: node for node in nodes}),
        pods=Overlay(by_uid),
        pods_by_node=Overlay({node: _node_pods(there) for node, there in by_node.items()}),
        budgets={(budget.namespace, budget.name): budget for budget in budgets},
        quotas={(quota.namespace, quota.name): quota for quota in quotas},
        storage=storage,
        namespaces=namespaces or {},
    )


def _node_pods(pods: Iterable[ClusterPod]) -> NodePods:
    there = tuple(pods)
    requested = ZERO
    for pod in there:
        requested += pod.requests
    return NodePods(there, requested)
