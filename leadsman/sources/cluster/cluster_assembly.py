"""Puts the API server's objects together to a Cluster, whether a watch or a file brings them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from leadsman.cluster.model import Cluster, cluster_of
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.storage import Storage
from leadsman.kube.object_changes import ChangeType, MinimalMetadata, ObjectChange, object_key
from leadsman.sources.cluster.budget_objects import BudgetObject, NamespaceObject, QuotaObject
from leadsman.sources.cluster.node_objects import CSINodeObject, NodeObject
from leadsman.sources.cluster.pod_object import PodObject
from leadsman.sources.cluster.storage_objects import ClaimObject, StorageClassObject, VolumeObject

OBJECT_TYPES: Mapping[str, type] = {
    "Pod": PodObject,
    "Node": NodeObject,
    "CSINode": CSINodeObject,
    "PodDisruptionBudget": BudgetObject,
    "ResourceQuota": QuotaObject,
    "Namespace": NamespaceObject,
    "PersistentVolume": VolumeObject,
    "PersistentVolumeClaim": ClaimObject,
    "StorageClass": StorageClassObject,
}
"""Kind → how it is decoded. Each has `model`, what the Cluster holds of it; a CSINode has `attach_limits`."""

Changes = Sequence[ObjectChange[Any]]
K = TypeVar("K")


class ClusterAssembly:
    """Keeps a Cluster up to date.

    cluster: of all changes so far; replaced and never altered, and the same object while nothing changes that it shows.
    """

    def __init__(self) -> None:
        self.cluster: Cluster = cluster_of((), ())
        self._attach_limits: dict[str, Mapping[str, int]] = {}

    def add(self, kind: str, objects: Iterable[Any]) -> None:
        """Adds objects of one kind."""
        self.apply(kind, [ObjectChange(ChangeType.ADDED, each) for each in objects])

    def apply(self, kind: str, changes: Changes) -> None:
        """Applies the changes of objects of one kind, a key of OBJECT_TYPES."""
        match kind:
            case "Pod":
                self._change_pods(changes)
            case "Node":
                self._change_nodes(changes)
            case "CSINode":
                self._change_attach_limits(changes)
            case "PodDisruptionBudget":
                self.cluster = replace(self.cluster, budgets=_changed(self.cluster.budgets, changes, object_key))
            case "ResourceQuota":
                self.cluster = replace(self.cluster, quotas=_changed(self.cluster.quotas, changes, object_key))
            case "Namespace":
                self.cluster = replace(self.cluster, namespaces=_changed(self.cluster.namespaces, changes, _name))
            case _:
                self.cluster = replace(self.cluster, storage=_changed_storage(self.cluster.storage, kind, changes))

    def _change_pods(self, changes: Sequence[ObjectChange[PodObject]]) -> None:
        pods: dict[str, ClusterPod | None] = {}
        for change in changes:
            pod = change.object.model
            gone = change.kind is ChangeType.DELETED or change.object.finished
            if gone or change.old is None or change.old.model != pod:
                pods[pod.uid] = None if gone else pod
        if pods:
            self.cluster = self.cluster.changed(pods=pods)

    def _change_nodes(self, changes: Sequence[ObjectChange[NodeObject]]) -> None:
        """Kubelets update their nodes all the time, and most updates change nothing here."""
        nodes: dict[str, ClusterNode | None] = {}
        for change in changes:
            node = change.object.model
            if change.kind is ChangeType.DELETED:
                nodes[node.name] = None
            elif change.old is None or change.old.model != node:
                nodes[node.name] = replace(node, attach_limits=self._attach_limits.get(node.name, {}))
        if nodes:
            self.cluster = self.cluster.changed(nodes=nodes)

    def _change_attach_limits(self, changes: Sequence[ObjectChange[CSINodeObject]]) -> None:
        nodes: dict[str, ClusterNode | None] = {}
        for change in changes:
            name = change.object.metadata.name
            limits = {} if change.kind is ChangeType.DELETED else change.object.attach_limits
            self._attach_limits[name] = limits
            node = self.cluster.nodes.get(name)
            if node is not None and node.attach_limits != limits:
                nodes[name] = replace(node, attach_limits=limits)
        if nodes:
            self.cluster = self.cluster.changed(nodes=nodes)


def _changed_storage(storage: Storage, kind: str, changes: Changes) -> Storage:
    match kind:
        case "PersistentVolume":
            return replace(storage, volumes=_changed(storage.volumes, changes, _name))
        case "PersistentVolumeClaim":
            return replace(storage, claims=_changed(storage.claims, changes, object_key))
        case "StorageClass":
            return replace(storage, classes=_changed(storage.classes, changes, _name))
    raise KeyError(kind)


def _changed(before: Mapping[K, Any], changes: Changes, key: Callable[[MinimalMetadata], K]) -> dict[K, Any]:
    """The mapping with the models of the objects that changed."""
    after = dict(before)
    for change in changes:
        after.pop(key(change.object.metadata), None)
        if change.kind is not ChangeType.DELETED:
            after[key(change.object.metadata)] = change.object.model
    return after


def _name(metadata: MinimalMetadata) -> str:
    return metadata.name
