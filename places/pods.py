"""Where the pods of workloads run, from the API server: pods, and the owners of their owners, listed and watched.

    pod → ReplicaSet → Deployment, or whatever else controls the ReplicaSet
    pod → Job → CronJob; the Job is a workload too
    pod → StatefulSet, DaemonSet, …; a pod without a controller is its own workload

Where ReplicaSets cannot be read, the hash in their names tells the Deployment (decision.places.workload).
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from apiserver.changes import Change, Kind
from apiserver.listing import Wanted
from apiserver.objects import Owner
from apiserver.requests import Client
from apiserver.resources import JOBS, PODS, REPLICA_SETS
from apiserver.watching import Reflector
from decision.places import HASH_LABEL, Placed, Places, workload
from places.workloads import Workload, Workloads

LONGEST_PAUSE_SECONDS = 4.0
"""Between attempts: with these the view is current within 10 s after the API server is back. Extenders are few."""

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
"""A finished pod is nowhere. Where Jobs leave theirs behind, this is most pods."""

_OWNERS = {"ReplicaSet": REPLICA_SETS, "Job": JOBS}
_NAMED_TOO = ("Job",)  # people know a Job by its own name as well


class _Labels(Struct, frozen=True, gc=False):
    hash: str = field(default="", name=HASH_LABEL)


class _Metadata(Struct, frozen=True, gc=False, rename="camel"):
    """Nothing that is not used: 10,000 of these are kept."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: _Labels = _Labels()
    owner_references: tuple[Owner, ...] = ()
    deletion_timestamp: str = ""

    @property
    def controller(self) -> Owner | None:
        return next((owner for owner in self.owner_references if owner.controller), None)


class _Spec(Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""


class _Pod(Struct, frozen=True, gc=False):
    metadata: _Metadata
    spec: _Spec = _Spec()


class _Controller(Struct, frozen=True, gc=False):
    """A ReplicaSet or a Job, as far as it is asked for: its metadata."""

    metadata: _Metadata


class ApiPlaces:
    """Places from the API server. `run` it as one task; readers take `current`.

    The view stays as it is while the API server is away. clock: monotonic seconds, the one of decisions.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        pods = Wanted(PODS, fields=UNFINISHED)
        settings: dict[str, Any] = {"longest_pause_seconds": LONGEST_PAUSE_SECONDS, "clock": clock}
        self._workloads, self._places = Workloads(), Places()
        self._waiting: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        self.pods = Reflector(client, pods, _Pod, on_changes=self._pods_changed, **settings)
        self.owners: Mapping[str, Reflector[_Controller]] = {
            kind: Reflector(
                client,
                Wanted(resource, metadata_only=True),
                _Controller,
                on_changes=lambda changes, kind=kind: self._owners_changed(kind, changes),  # type: ignore[misc]
                **settings,
            )
            for kind, resource in _OWNERS.items()
        }

    @property
    def current(self) -> Places:
        """Known once the pods were listed, and their owners too, unless these cannot be."""
        if not self._ready:
            return self._places
        table, read_at = self._workloads.table, self.pods.answered_at
        if self._places.workloads is not table or self._places.read_at != read_at:
            self._places = Places(table, read_at)
        return self._places

    @property
    def reflectors(self) -> Sequence[Reflector[Any]]:
        return (self.pods, *self.owners.values())

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run(), name=f"follow {reflector.wanted.resource.plural}")

    @property
    def _ready(self) -> bool:
        tried = all(owners.loaded.is_set() or owners.errors for owners in self.owners.values())
        return self.pods.loaded.is_set() and tried

    def _pods_changed(self, changes: Sequence[Change[_Pod]]) -> None:
        for change in changes:
            self._forget((change.old or change.object).metadata)
            if change.kind is not Kind.DELETED:
                self._take(change.object)
        self._workloads.publish()

    def _take(self, pod: _Pod) -> None:
        meta, owner = pod.metadata, pod.metadata.controller
        stays = pod.spec.node_name and not meta.deletion_timestamp
        placed = Placed(meta.name, pod.spec.node_name) if stays else None
        if owner and owner.kind in _OWNERS:
            self._waiting[meta.namespace, owner.kind, owner.name].add(meta.name)
        self._workloads.put(meta.namespace, ("pod", meta.name), self._of(meta), placed)

    def _forget(self, meta: _Metadata) -> None:
        owner = meta.controller
        waiting = self._waiting.get((meta.namespace, owner.kind, owner.name)) if owner else None
        if owner and waiting:
            waiting.discard(meta.name)
            if not waiting:
                del self._waiting[meta.namespace, owner.kind, owner.name]
        self._workloads.drop(meta.namespace, ("pod", meta.name))

    def _owners_changed(self, kind: str, changes: Sequence[Change[_Controller]]) -> None:
        """What is new of an owner is told of its pods as well: the two watches do not keep step."""
        for change in changes:
            meta = change.object.metadata
            self._workloads.drop(meta.namespace, (kind, meta.name))
            if change.kind is not Kind.DELETED:
                self._workloads.put(meta.namespace, (kind, meta.name), self._of_owner(kind, meta), None)
            waiting = tuple(self._waiting.get((meta.namespace, kind, meta.name), ()))
            for pod in filter(None, (self.pods.get((meta.namespace, name)) for name in waiting)):
                self._take(pod)
        self._workloads.publish()

    def _of(self, pod: _Metadata) -> Iterator[Workload]:
        owner = pod.controller
        known = self._owner(pod.namespace, owner) if owner else None
        if owner and known:
            yield from self._of_owner(owner.kind, known)
        elif owner:
            yield _named(pod.namespace, workload(owner.kind, owner.name, {HASH_LABEL: pod.labels.hash}))
        else:
            yield pod.namespace, "pod", pod.name

    def _owner(self, namespace: str, owner: Owner) -> _Metadata | None:
        reflector = self.owners.get(owner.kind)
        found = reflector.get((namespace, owner.name)) if reflector else None
        return found.metadata if found and found.metadata.uid == owner.uid else None

    def _of_owner(self, kind: str, meta: _Metadata) -> Iterator[Workload]:
        above = meta.controller
        if above:
            yield meta.namespace, above.kind.lower(), above.name
        if not above or kind in _NAMED_TOO:
            yield meta.namespace, kind.lower(), meta.name


def _named(namespace: str, qualified: str) -> Workload:
    kind, _, name = qualified.partition("/")
    return namespace, kind, name
