"""Decodes the few fields of Kubernetes' objects that are used here straight from the API's JSON.

Other fields are skipped. A field that is missing or null has its default. Times are UTC.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, NamedTuple, Self

import msgspec
from msgspec import Meta, Struct, field

from leadsman.kube.bounded_metadata import BoundedAnnotations, BoundedLabels
from leadsman.kube.names import POD_TEMPLATE_HASH_LABEL

Time = Annotated[datetime, Meta(tz=True)]
"""A time with its zone, without which two of them could not be compared."""

Name = Annotated[str, Meta(max_length=253)]
"""No longer than the API server allows: it becomes part of keys and records."""

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]


class Part(Struct, frozen=True, gc=False, rename="camel"):
    """A part of an object, of which only the fields that are used here are decoded."""


class OwnerReference(Part, frozen=True):
    """An owner of an object. At most one owner is the controller."""

    kind: str
    name: str
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class Owner(NamedTuple):
    """An owner manages a pod; kind "Pod": nothing but the pod itself does."""

    kind: str
    name: str


def controller_of(references: Iterable[OwnerReference]) -> OwnerReference | None:
    """Returns the reference to the object's controller, of which it has at most one."""
    return next((each for each in references if each.controller), None)


def pod_owner(name: str, references: Iterable[OwnerReference]) -> Owner:
    """Returns the owner of the pod with this name: its controller, or the pod itself when it has none.

    A static pod's controller is its Node, which has the pod's name end in its own: `kube-proxy-edge-1`. The Node runs
    pods that have nothing else in common, so such a pod is its own, named the same on every node: `kube-proxy`.
    """
    controller = controller_of(references)
    if controller is None:
        return Owner("Pod", name)
    if controller.kind == "Node":
        return Owner("Pod", name.removesuffix(f"-{controller.name}"))
    return Owner(controller.kind, controller.name)


def workload_name(kind: str, name: str, labels: Mapping[str, str]) -> str:
    """Names the workload of a pod by its controller and its own labels: a ReplicaSet whose name ends in the
    Deployment's hash is the Deployment's."""
    deployment = name.removesuffix(f"-{labels.get(POD_TEMPLATE_HASH_LABEL)}")
    if kind.lower() == "replicaset" and deployment != name:
        return f"deployment/{deployment}"
    return f"{kind.lower()}/{name}"


LONGEST_NAME = 253
"""No object has a longer name. The API server does not check the names in owner references; a longer one is no
object's."""


class ControllerReferences(tuple[OwnerReference, ...]):
    """Keeps of an object's owner references only the controller's: a pod may have 15,000 others."""

    @classmethod
    def reduced(cls, value: object) -> Self:
        """Reduces a JSON value (`decoding`) to the controller's reference."""
        listed = msgspec.convert(value, list[dict[str, object]])
        owners = (msgspec.convert(one, OwnerReference) for one in listed if one.get("controller") is True)
        return cls(owner for owner in owners if max(map(len, (owner.kind, owner.name, owner.uid))) <= LONGEST_NAME)


class ObjectIdentity(Part, frozen=True):
    """Tells one object, and one version of it, from all others: a list or a watch needs no more."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


_NO_LABELS, _NO_ANNOTATIONS = BoundedLabels(), BoundedAnnotations()


class ObjectMeta(ObjectIdentity, frozen=True, rename="camel"):
    """The metadata of an object.

    generation: of its spec.
    deletion_timestamp: when it must be gone; None until it is deleted.
    """

    name: Name = ""
    namespace: Name = ""
    uid: Name = ""
    resource_version: str = ""
    labels: BoundedLabels = _NO_LABELS
    annotations: BoundedAnnotations = _NO_ANNOTATIONS
    owner_references: ControllerReferences = ControllerReferences()
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    generation: int = 0

    def identity(self) -> "ObjectMeta":
        """Returns what a view of objects needs; labels and annotations stay where some were cut, to be counted."""
        return ObjectMeta(
            self.name,
            self.namespace,
            self.uid,
            self.resource_version,
            self.labels if self.labels.cut else _NO_LABELS,
            self.annotations if self.annotations.cut else _NO_ANNOTATIONS,
        )

    def used_annotations(self) -> Mapping[str, str]:
        """Returns the annotations that something here reads."""
        used = {key: value for key, value in self.annotations.items() if self.annotations.is_read(key)}
        return used or _NO_ANNOTATIONS

    @property
    def controller(self) -> OwnerReference | None:
        """Returns the owner that manages the object; None: none does."""
        return controller_of(self.owner_references)


class PartialObjectMetadata(Part, frozen=True):
    """Any object with only its metadata."""

    metadata: ObjectMeta = ObjectMeta()


class IdentifiedObject(Part, frozen=True):
    """Any object of which only the identity is decoded."""

    metadata: ObjectIdentity = ObjectIdentity()


class ContainerStateWaiting(Part, frozen=True):
    """Says why a container has not started."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(Part, frozen=True):
    """Says since when a container runs."""

    started_at: Time | None = None


class ContainerStateTerminated(Part, frozen=True):
    """Says when and why a container ended."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: Time | None = None
    finished_at: Time | None = None


class ContainerState(Part, frozen=True):
    """The state of a container, in one of three fields; with none, it is waiting for no stated reason."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Part, frozen=True):
    """The present state of a container, and the one before its last restart.

    state: now.
    last_state: how it ended before its last restart.
    """

    name: Name
    restart_count: Int32 = 0
    ready: bool = False
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class Condition(Part, frozen=True):
    """A condition of an object. status: True, False or Unknown."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None


def condition(conditions: Iterable[Condition], name: str) -> bool | None:
    """Tells whether the condition is true; None: Unknown, or there is none of that name."""
    status = next((each.status for each in conditions if each.type == name), "Unknown")
    return {"True": True, "False": False}.get(status)


class PodSpec(Part, frozen=True):
    """The spec of a pod. node_name: "" until the pod is bound."""

    node_name: str = ""


class PodStatus(Part, frozen=True):
    """The status of a pod.

    phase: Pending, Running, Succeeded, Failed or Unknown.
    reason: such as Evicted.
    """

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = field(default="", name="podIP")
    host_ip: str = field(default="", name="hostIP")
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Part, frozen=True):
    """A pod as the API server sends it."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        """Tells whether the pod has ended and will not run again."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def terminating(self) -> bool:
        """Tells whether the pod is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def unscheduled_reason(self) -> str:
        """Says why kube-scheduler could not place the pod: Unschedulable, SchedulerError, … (core/v1 types.go); "": it
        could."""
        failed = (each for each in self.status.conditions if each.type == "PodScheduled" and each.status == "False")
        return next((each.reason for each in failed), "")


class NodeAddress(Part, frozen=True):
    """One address of a node. type: InternalIP, ExternalIP, Hostname."""

    type: str
    address: str


class NodeSpec(Part, frozen=True):
    """The spec of a node."""

    unschedulable: bool = False


class NodeStatus(Part, frozen=True):
    """The status of a node."""

    addresses: tuple[NodeAddress, ...] = ()
    conditions: tuple[Condition, ...] = ()


class Node(Part, frozen=True):
    """A node as the API server sends it."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NodeLeaseSpec(Part, frozen=True):
    """The spec of a node's Lease. renew_time: as the kubelet wrote it, by its own clock."""

    lease_duration_seconds: int = 40
    renew_time: str = ""


class NodeLease(Part, frozen=True):
    """A Lease in kube-node-lease, which a kubelet renews while it lives."""

    metadata: ObjectMeta
    spec: NodeLeaseSpec = NodeLeaseSpec()


class ObjectReference(Part, frozen=True):
    """The object that an Event is about. field_path: spec.containers{name} when it is about one container."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    field_path: str = ""


class EventSeries(Part, frozen=True):
    """Counts how often an Event was seen."""

    count: int = 0
    last_observed_time: Time | None = None


class EventMetadata(ObjectIdentity, frozen=True, rename="camel"):
    """The metadata of an Event."""

    creation_timestamp: Time | None = None


class Event(Part, frozen=True):
    """A core/v1 Event; the API server shows every Event in this form too. type: Normal or Warning."""

    metadata: EventMetadata
    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    series: EventSeries | None = None
    event_time: Time | None = None
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None

    @property
    def occurrences(self) -> int:
        """Says how often the Event was seen: core/v1 counts in `count`, events.k8s.io/v1 in `series`."""
        return self.series.count if self.series else (self.count or 1)

    @property
    def last_seen(self) -> datetime | None:
        """Returns when the Event was last seen; None when it has no time."""
        newest = self.series.last_observed_time if self.series else None
        return newest or self.last_timestamp or self.event_time or self.first_timestamp
