"""Follows the whole cluster on the API server, for whatever plans with it.

The list of pods is the largest thing that a controller holds, so this runs only where a feature needs it. RBAC:
daemonset/components/self-healing/cluster-model.yaml.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from leadsman.cluster.model import Cluster, ClusterNode, ClusterPod, Storage, cluster_of
from leadsman.kube.client import ApiClient
from leadsman.kube.decoding import decode_json
from leadsman.kube.errors import MalformedResponse
from leadsman.kube.listing import ListOptions
from leadsman.kube.object_changes import ChangeType, ObjectChange, object_key
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import (
    CSI_NODES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_QUOTAS,
    STORAGE_CLASSES,
)
from leadsman.runtime.decode_errors import UNREADABLE, explain, explain_syntax
from leadsman.sources.cluster.cluster_objects import (
    BudgetObject,
    ClaimObject,
    CSINodeObject,
    NamespaceObject,
    NodeObject,
    QuotaObject,
    StorageClassObject,
    VolumeObject,
)
from leadsman.sources.cluster.pod_object import PodObject
from leadsman.sources.cluster.workload_follower import UNFINISHED_PODS
from leadsman.sources.source import follow, run_all

# Puts the API server's objects together to a Cluster, whether a watch or a file brings them.

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
"""Maps each kind to how it is decoded. Each has `model`, what the Cluster holds of it; a CSINode has
`attach_limits`."""

Changes = Sequence[ObjectChange[Any]]
T = TypeVar("T", Cluster, Storage)


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
            case "PodDisruptionBudget" | "ResourceQuota" | "Namespace":
                self.cluster = _changed(self.cluster, kind, changes)
            case _:
                self.cluster = replace(self.cluster, storage=_changed(self.cluster.storage, kind, changes))

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
            self._attach_limits.pop(name, None)
            if limits:
                self._attach_limits[name] = limits
            node = self.cluster.nodes.get(name)
            if node is not None and node.attach_limits != limits:
                nodes[name] = replace(node, attach_limits=limits)
        if nodes:
            self.cluster = self.cluster.changed(nodes=nodes)


_FIELDS: Mapping[str, tuple[str, bool]] = {
    "PodDisruptionBudget": ("budgets", True),
    "ResourceQuota": ("quotas", True),
    "Namespace": ("namespaces", False),
    "PersistentVolume": ("volumes", False),
    "PersistentVolumeClaim": ("claims", True),
    "StorageClass": ("classes", False),
}
"""Maps each kind to its field of Cluster or Storage, and whether that is by namespace and name, or by name alone."""


def _changed(before: T, kind: str, changes: Changes) -> T:
    """Returns the Cluster or Storage with the models of the objects that changed."""
    field, is_namespaced = _FIELDS[kind]
    after = dict(getattr(before, field))
    for change in changes:
        key = object_key(change.object.metadata) if is_namespaced else change.object.metadata.name
        after.pop(key, None)
        if change.kind is not ChangeType.DELETED:
            after[key] = change.object.model
    return replace(before, **{field: after})


LISTS: Mapping[str, ListOptions] = {
    "Node": ListOptions(NODES),
    "CSINode": ListOptions(CSI_NODES),
    "Pod": ListOptions(PODS, field_selector=UNFINISHED_PODS),
    "Namespace": ListOptions(NAMESPACES, metadata_only=True),
    "PodDisruptionBudget": ListOptions(POD_DISRUPTION_BUDGETS),
    "ResourceQuota": ListOptions(RESOURCE_QUOTAS),
    "PersistentVolume": ListOptions(PERSISTENT_VOLUMES),
    "PersistentVolumeClaim": ListOptions(PERSISTENT_VOLUME_CLAIMS),
    "StorageClass": ListOptions(STORAGE_CLASSES),
}
"""Maps each kind to what is listed and watched."""


class ClusterFollower:
    """Keeps the Cluster up to date. `run` it as one task; readers take `current`.

    The cluster stays as it is while the API server is away: its age says so.
    """

    def __init__(self, client: ApiClient) -> None:
        self._assembly = ClusterAssembly()
        self.reflectors: Mapping[str, Reflector[Any]] = {
            kind: follow(client, options, OBJECT_TYPES[kind], partial(self._assembly.apply, kind))
            for kind, options in LISTS.items()
        }

    @property
    def current(self) -> Cluster | None:
        return self._assembly.cluster if self.loaded else None

    @property
    def loaded(self) -> bool:
        """Tells whether everything was listed once: without a missing part, room and rights would seem to be there."""
        return all(reflector.loaded.is_set() for reflector in self.reflectors.values())

    @property
    def problem(self) -> str:
        return next((each.problem.text for each in self.reflectors.values() if each.problem.text), "")

    def age_seconds(self, now: float) -> float:
        return max(reflector.age_seconds(now) for reflector in self.reflectors.values())

    async def run(self) -> None:
        """Follows until cancelled."""
        await run_all(self.reflectors.values())


# Reads a cluster from what kubectl prints, for work without an API server.
#
# kubectl get nodes,pods,namespaces,poddisruptionbudgets,resourcequotas,persistentvolumes,persistentvolumeclaims,\
# storageclasses,csinodes --all-namespaces -o json


class BadClusterFile(ValueError):
    """The text is not a list of Kubernetes objects; it says which item, what it is and what is allowed."""


_LIST_TEXT = "a List of Kubernetes objects as `kubectl get -o json` prints it"


class _Kind(Struct):
    kind: str = ""


class _List(Struct):
    items: list[Raw]


def read_cluster(text: bytes) -> Cluster:
    """Reads a cluster from a List of objects in JSON. Objects of kinds that the model has no place for are left out.

    Raises BadClusterFile when the text is not such a list, or one of its objects cannot be read.
    """
    try:
        items = msgspec.json.decode(text, type=_List).items
    except msgspec.ValidationError as error:
        raise BadClusterFile(f"not {_LIST_TEXT}: {explain(error)}") from error
    except UNREADABLE as error:
        raise BadClusterFile(f"{explain_syntax(error, text)}; must be {_LIST_TEXT}") from error
    by_kind: dict[str, list[Any]] = defaultdict(list)
    for number, item in enumerate(items):
        kind = _decoded(item, _Kind, number).kind
        if kind in OBJECT_TYPES:
            by_kind[kind].append(_decoded(item, OBJECT_TYPES[kind], number))
    assembly = ClusterAssembly()
    for kind, objects in by_kind.items():
        assembly.add(kind, objects)
    return assembly.cluster


def _decoded(item: Raw, kind: type, number: int) -> Any:
    try:
        return decode_json(item, kind)
    except MalformedResponse as error:
        raise BadClusterFile(f"items[{number}]: {error}") from error
