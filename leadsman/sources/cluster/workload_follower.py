"""Follows where the pods of workloads run: pods, ReplicaSets and Jobs, listed and watched on the API server.

    pod → ReplicaSet → Deployment, or whatever else controls the ReplicaSet
    pod → Job → CronJob; the Job is a workload too
    pod → StatefulSet, DaemonSet, …; a pod without a controller is its own workload, and so is a static pod

Where ReplicaSets cannot be read, the hash in their names gives the Deployment (leadsman.kube.objects).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from leadsman.decision.inputs import PlacedPod, PlacedPods, WorkloadIndex
from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.names import POD_TEMPLATE_HASH_LABEL
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import (
    ControllerReferences,
    ObjectIdentity,
    OwnerReference,
    PodSpec,
    controller_of,
    pod_owner,
    workload_name,
)
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import JOBS, PODS, REPLICA_SETS
from leadsman.sources.source import follow, run_all

# The table of workloads behind leadsman.decision.inputs.WorkloadIndex, changed one member at a time.
#
# A member is what proves that the workload exists: a pod, placed or not, or a ReplicaSet without pods.

Member = tuple[str, str]
"""Kind and name, in the workload's namespace."""

WorkloadKey = tuple[str, str, str]
"""Namespace, kind in lower case, name."""

PodsByWorkload = Mapping[tuple[str, str], Mapping[str, PlacedPods]]
"""Maps (namespace, name) → kind → placed pods, as WorkloadIndex.by_name."""


class WorkloadTable:
    """Keeps the members of each workload. A change costs as much as its own workload holds.

    table: as of the last `publish`, which copies only its first level.
    """

    def __init__(self) -> None:
        self._table: dict[tuple[str, str], Mapping[str, PlacedPods]] = {}
        self.table: PodsByWorkload = MappingProxyType(self._table)
        self._members: dict[WorkloadKey, dict[Member, PlacedPod | None]] = {}
        self._workloads_by_member: dict[tuple[str, Member], tuple[WorkloadKey, ...]] = {}
        self._touched: set[WorkloadKey] = set()

    def put(self, namespace: str, member: Member, workloads: Iterable[WorkloadKey], placed: PlacedPod | None) -> None:
        """Makes the member belong to these workloads and no others. placed: None: it runs on no node."""
        self.drop(namespace, member)
        self._workloads_by_member[namespace, member] = keys = tuple(workloads)
        for workload in keys:
            self._members.setdefault(workload, {})[member] = placed
            self._touched.add(workload)

    def drop(self, namespace: str, member: Member) -> None:
        """Removes the member from all its workloads."""
        for workload in self._workloads_by_member.pop((namespace, member), ()):
            members = self._members[workload]
            del members[member]
            if not members:
                del self._members[workload]
            self._touched.add(workload)

    def publish(self) -> None:
        """Replaces `table` by one with all changes so far."""
        if not self._touched:
            return
        table = self._table.copy()
        for namespace, kind, name in self._touched:
            kinds = dict(table.get((namespace, name), {}))
            kinds.pop(kind, None)
            members = self._members.get((namespace, kind, name))
            if members is not None:
                kinds[kind] = tuple(sorted(placed for placed in members.values() if placed))
            if kinds:  # In its place: a recording writes a table whose order changes again.
                table[namespace, name] = MappingProxyType(kinds)
            else:
                table.pop((namespace, name), None)
        self._table, self.table = table, MappingProxyType(table)
        self._touched.clear()


UNFINISHED_PODS = "status.phase!=Succeeded,status.phase!=Failed"
"""A finished pod runs nowhere. Where Jobs leave theirs behind, most pods are finished."""

_OWNERS = {"ReplicaSet": REPLICA_SETS, "Job": JOBS}
_ALSO_WORKLOADS = ("Job",)  # people know a Job by its own name as well


class _Labels(Struct, frozen=True, gc=False):
    hash: str = field(default="", name=POD_TEMPLATE_HASH_LABEL)


class _Metadata(ObjectIdentity, frozen=True, rename="camel"):
    """Only the fields that are used: 10,000 of these are kept."""

    labels: _Labels = _Labels()
    owner_references: ControllerReferences = ControllerReferences()
    deletion_timestamp: str = ""

    @property
    def controller(self) -> OwnerReference | None:
        return controller_of(self.owner_references)


class _Pod(Struct, frozen=True, gc=False):
    metadata: _Metadata
    spec: PodSpec = PodSpec()


class _Controller(Struct, frozen=True, gc=False):
    """A ReplicaSet or a Job: only its metadata is requested."""

    metadata: _Metadata


class WorkloadFollower:
    """Keeps the WorkloadIndex up to date. `run` it as one task; readers take `current`.

    The index stays as it is while the API server is away.
    """

    def __init__(self, client: ApiClient) -> None:
        pods = ListOptions(PODS, field_selector=UNFINISHED_PODS)
        self._table, self._index = WorkloadTable(), WorkloadIndex()
        self._pods_by_owner: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        self.pods = follow(client, pods, _Pod, self._pods_changed)
        self.owners: Mapping[str, Reflector[_Controller]] = {
            kind: follow(
                client, ListOptions(resource, metadata_only=True), _Controller, partial(self._owners_changed, kind)
            )
            for kind, resource in _OWNERS.items()
        }

    @property
    def current(self) -> WorkloadIndex:
        """Returns the newest index. It is loaded once pods are listed, and their owners if those can be."""
        if not self._ready:
            return self._index
        table, read_at = self._table.table, self.pods.last_response_at
        if self._index.by_name is not table or self._index.read_at != read_at:
            self._index = WorkloadIndex(table, read_at)
        return self._index

    def is_unplaced(self, namespace: str, name: str, uid: str) -> bool:
        """Tells whether the pod is there and has no node, or pods were never listed."""
        if not self.pods.loaded.is_set():
            return True
        pod = self.pods.get((namespace, name))
        return pod is not None and pod.metadata.uid == uid and not pod.spec.node_name

    @property
    def reflectors(self) -> Sequence[Reflector[Any]]:
        return (self.pods, *self.owners.values())

    async def run(self) -> None:
        """Follows until cancelled."""
        await run_all(self.reflectors)

    @property
    def _ready(self) -> bool:
        tried = all(owners.loaded.is_set() or owners.errors for owners in self.owners.values())
        return self.pods.loaded.is_set() and tried

    def _pods_changed(self, changes: Sequence[ObjectChange[_Pod]]) -> None:
        for change in changes:
            self._drop_pod((change.old or change.object).metadata)
            if change.kind is not ChangeType.DELETED:
                self._put_pod(change.object)
        self._table.publish()

    def _put_pod(self, pod: _Pod) -> None:
        meta, owner = pod.metadata, pod.metadata.controller
        stays = pod.spec.node_name and not meta.deletion_timestamp
        placed = PlacedPod(meta.name, pod.spec.node_name) if stays else None
        if owner and owner.kind in _OWNERS:
            self._pods_by_owner[meta.namespace, owner.kind, owner.name].add(meta.name)
        self._table.put(meta.namespace, ("pod", meta.name), self._workloads_of_pod(meta), placed)

    def _drop_pod(self, meta: _Metadata) -> None:
        owner = meta.controller
        siblings = self._pods_by_owner.get((meta.namespace, owner.kind, owner.name)) if owner else None
        if owner and siblings:
            siblings.discard(meta.name)
            if not siblings:
                del self._pods_by_owner[meta.namespace, owner.kind, owner.name]
        self._table.drop(meta.namespace, ("pod", meta.name))

    def _owners_changed(self, kind: str, changes: Sequence[ObjectChange[_Controller]]) -> None:
        """Assigns the owner's pods to their workloads again: the two watches do not keep step."""
        for change in changes:
            meta = change.object.metadata
            self._table.drop(meta.namespace, (kind, meta.name))
            if change.kind is not ChangeType.DELETED:
                self._table.put(meta.namespace, (kind, meta.name), self._workloads_of_owner(kind, meta), None)
            pods = tuple(self._pods_by_owner.get((meta.namespace, kind, meta.name), ()))
            for pod in filter(None, (self.pods.get((meta.namespace, name)) for name in pods)):
                self._put_pod(pod)
        self._table.publish()

    def _workloads_of_pod(self, pod: _Metadata) -> Iterator[WorkloadKey]:
        owner = pod.controller
        owner_metadata = self._owner(pod.namespace, owner) if owner else None
        if owner and owner_metadata:
            yield from self._workloads_of_owner(owner.kind, owner_metadata)
        else:
            hash_label = {POD_TEMPLATE_HASH_LABEL: pod.labels.hash}
            workload = workload_name(*pod_owner(pod.name, pod.owner_references), hash_label)
            kind, _, name = workload.partition("/")
            yield pod.namespace, kind, name

    def _owner(self, namespace: str, owner: OwnerReference) -> _Metadata | None:
        reflector = self.owners.get(owner.kind)
        listed = reflector.get((namespace, owner.name)) if reflector else None
        return listed.metadata if listed and listed.metadata.uid == owner.uid else None

    def _workloads_of_owner(self, kind: str, meta: _Metadata) -> Iterator[WorkloadKey]:
        above = meta.controller
        if above:
            yield meta.namespace, above.kind.lower(), above.name
        if not above or kind in _ALSO_WORKLOADS:
            yield meta.namespace, kind.lower(), meta.name
