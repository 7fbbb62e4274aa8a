"""Decodes a pod of the API server into the cluster model, and drops on the way what the model does not use."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from sys import intern
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from leadsman.cluster.constraints import (
    ANY_ADDRESS,
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    PodAffinityTerm,
    PodConstraints,
    Requirement,
    Toleration,
    TopologySpread,
)
from leadsman.cluster.devices.demand import NO_DEMAND, DeviceDemand, PodClaims, extended_requests, readable_demand
from leadsman.cluster.model import ClusterPod
from leadsman.cluster.resources import ContainerRequest, Resources, pod_requests
from leadsman.kube.bounded_metadata import BoundedLabels
from leadsman.kube.objects import Condition, ObjectMeta, Part, condition, controller_of, pod_owner, workload_name

# The fields of a pod's spec that kube-scheduler looks at, and what they mean in the model.

ResourceList = Mapping[str, str | int | float]
NO_RESOURCES: ResourceList = {}


class LabelSelectorFields(Part, frozen=True):
    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()

    def selector(self) -> LabelSelector:
        equal = (Requirement(key, Operator.IN, (value,)) for key, value in sorted(self.match_labels.items()))
        return LabelSelector((*equal, *self.match_expressions))


class NodeSelectorFields(Part, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class ResourceFields(Part, frozen=True):
    requests: ResourceList = NO_RESOURCES


class PortFields(Part, frozen=True):
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = field(default="", name="hostIP")


class ContainerFields(Part, frozen=True):
    name: str = ""
    resources: ResourceFields = ResourceFields()
    ports: tuple[PortFields, ...] = ()
    restart_policy: str = ""


class ContainerStatusFields(Part, frozen=True):
    name: str = ""
    resources: ResourceFields | None = None
    allocated_resources: ResourceList | None = None

    def allocated(self) -> Resources | None:
        """Returns the larger of what the kubelet has set aside and set up for the container; None: it says neither."""
        if self.resources is None and self.allocated_resources is None:
            return None
        actuated = Resources.of(self.resources.requests if self.resources else {})
        return actuated.maximum(Resources.of(self.allocated_resources or {}))


class NodeAffinityFields(Part, frozen=True):
    required: NodeSelectorFields | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class PodAffinityTermFields(Part, frozen=True):
    topology_key: str
    label_selector: LabelSelectorFields | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelectorFields | None = None

    def term(self, namespace: str) -> PodAffinityTerm:
        own = () if self.namespaces or self.namespace_selector is not None else (namespace,)
        return PodAffinityTerm(
            self.topology_key,
            None if self.label_selector is None else self.label_selector.selector(),
            (*self.namespaces, *own),
            None if self.namespace_selector is None else self.namespace_selector.selector(),
        )


class PodAffinityFields(Part, frozen=True):
    required: tuple[PodAffinityTermFields, ...] = field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )

    def terms(self, namespace: str) -> tuple[PodAffinityTerm, ...]:
        return tuple(each.term(namespace) for each in self.required)


class AffinityFields(Part, frozen=True):
    node_affinity: NodeAffinityFields = NodeAffinityFields()
    pod_affinity: PodAffinityFields = PodAffinityFields()
    pod_anti_affinity: PodAffinityFields = PodAffinityFields()


class TopologySpreadFields(Part, frozen=True):
    topology_key: str
    max_skew: int
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelectorFields | None = None
    match_label_keys: tuple[str, ...] = ()
    min_domains: int = 1
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"

    def constraint(self, labels: Mapping[str, str]) -> TopologySpread:
        return TopologySpread(
            self.topology_key,
            self.max_skew,
            self._selector(labels),
            self.min_domains,
            self.node_affinity_policy == "Honor",
            self.node_taints_policy == "Honor",
        )

    def _selector(self, labels: Mapping[str, str]) -> LabelSelector | None:
        """The pod's own value of each key in match_label_keys is asked for too; a key that it lacks is ignored."""
        if self.label_selector is None:
            return None
        given = self.label_selector.selector().requirements
        own = ((key, labels[key]) for key in self.match_label_keys if key in labels)
        merged = (Requirement(key, Operator.IN, (value,)) for key, value in own)
        return LabelSelector((*given, *(each for each in merged if each not in given)))


class ResourceClaimFields(Part, frozen=True):
    """Names a claim in the pod's spec, or in its status one that was made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class TemplateFields(Part, frozen=True):
    """Holds what pods of one template have in common, which decides their constraints and requests."""

    containers: tuple[ContainerFields, ...] = ()
    init_containers: tuple[ContainerFields, ...] = ()
    overhead: ResourceList = NO_RESOURCES
    resources: ResourceFields = ResourceFields()
    node_selector: Mapping[str, str] = {}
    affinity: AffinityFields = AffinityFields()
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadFields, ...] = ()

    @property
    def sidecars(self) -> Iterator[ContainerFields]:
        """Yields the init containers that go on beside the others."""
        return (each for each in self.init_containers if each.restart_policy == "Always")

    def constraints(self, namespace: str, labels: Mapping[str, str]) -> PodConstraints:
        """Returns what the pods require of their node. labels: of the pod, for match_label_keys."""
        required = self.affinity.node_affinity.required
        return PodConstraints(
            node_selector=tuple(sorted(self.node_selector.items())),
            node_affinity=None if required is None else required.node_selector_terms,
            tolerations=self.tolerations,
            affinity=self.affinity.pod_affinity.terms(namespace),
            anti_affinity=self.affinity.pod_anti_affinity.terms(namespace),
            spread=tuple(
                each.constraint(labels)
                for each in self.topology_spread_constraints
                if each.when_unsatisfiable == "DoNotSchedule"
            ),
            host_ports=tuple(self._host_ports()),
        )

    def _host_ports(self) -> Iterator[HostPort]:
        for container in (*self.containers, *self.sidecars):
            for port in container.ports:
                if port.host_port > 0:
                    yield HostPort(port.host_port, port.protocol or "TCP", port.host_ip or ANY_ADDRESS)

    def requests(self, allocated: Mapping[str, Resources], *, resize_is_infeasible: bool = False) -> Resources:
        """Returns the requests that kube-scheduler counts. allocated: container → what the kubelet reports of it."""
        # What can be requested for the pod as a whole: KEP-2837.
        of_pod = {
            name: amount
            for name, amount in self.resources.requests.items()
            if name in ("cpu", "memory") or name.startswith("hugepages-")
        }
        return pod_requests(
            [_request(each, allocated, resize_is_infeasible) for each in self.containers],
            [_request(each, allocated, resize_is_infeasible) for each in self.init_containers],
            Resources.of(self.overhead),
            dict(Resources.of(of_pod).items()),
        )


def _request(container: ContainerFields, allocated: Mapping[str, Resources], infeasible: bool) -> ContainerRequest:
    held = allocated.get(container.name)
    asked = held if infeasible and held is not None else Resources.of(container.resources.requests)
    return ContainerRequest(asked, held, container.restart_policy == "Always")


# One object for equal values: pods of one template share their labels, constraints and requests.

V = TypeVar("V")

_SHARED: WeakValueDictionary[tuple[str, Hashable], Any] = WeakValueDictionary()


def _shared(kind: type[V], key: Hashable, make: Callable[[], V]) -> V:
    """Returns the one value of this kind and key, which lives as long as somebody uses it; made if nobody has it
    yet."""
    value: V | None = _SHARED.get((kind.__name__, key))
    if value is None:
        _SHARED[kind.__name__, key] = value = make()
    return value


def _shared_labels(labels: BoundedLabels) -> BoundedLabels:
    return _shared(BoundedLabels, (labels.cut, *sorted(labels.items())), lambda: labels)


def _shared_requests(requests: Resources) -> Resources:
    amounts = (requests.cpu_millis, requests.memory_bytes, requests.pods, *sorted(requests.extended.items()))
    return _shared(Resources, amounts, lambda: requests)


def shared_parts(pod: ClusterPod) -> ClusterPod:
    """Returns a snapshot's pod made of the same objects as its equals."""
    return replace(
        pod,
        labels=_shared_labels(BoundedLabels(pod.labels)),
        constraints=_shared(PodConstraints, msgspec.msgpack.encode(pod.constraints), lambda: pod.constraints),
        requests=_shared_requests(pod.requests),
    )


class _ClaimReference(Part, frozen=True):
    claim_name: str


class _VolumeFields(Part, frozen=True):
    name: str = ""
    persistent_volume_claim: _ClaimReference | None = None
    ephemeral: dict[str, msgspec.Raw] | None = None
    empty_dir: dict[str, msgspec.Raw] | None = None
    host_path: dict[str, msgspec.Raw] | None = None


class _SpecFields(TemplateFields, frozen=True):
    node_name: str = ""
    priority: int = 0
    priority_class_name: str = ""
    active_deadline_seconds: int | None = None
    scheduling_gates: tuple[dict[str, str], ...] = ()
    volumes: tuple[_VolumeFields, ...] = ()
    resource_claims: tuple[ResourceClaimFields, ...] = ()

    def claims(self, pod: str) -> Iterator[str]:
        """Yields the pod's volume claims; that of an ephemeral volume is named after both."""
        for volume in self.volumes:
            if volume.persistent_volume_claim is not None:
                yield volume.persistent_volume_claim.claim_name
            elif volume.ephemeral is not None:
                yield f"{pod}-{volume.name}"


class _StatusFields(Part, frozen=True):
    phase: str = "Pending"
    nominated_node_name: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatusFields, ...] = ()
    init_container_statuses: tuple[ContainerStatusFields, ...] = ()
    resource_claim_statuses: tuple[ResourceClaimFields, ...] = ()

    @property
    def resize_is_infeasible(self) -> bool:
        """Tells whether the kubelet said that a resize never fits the node: the pod then keeps what it has
        (KEP-1287)."""
        return any(each.type == "PodResizePending" and each.reason == "Infeasible" for each in self.conditions)

    def allocated(self) -> dict[str, Resources]:
        """Maps each container to what the kubelet reports of it."""
        statuses = (*self.container_statuses, *self.init_container_statuses)
        amounts = ((each.name, each.allocated()) for each in statuses)
        return {name: amount for name, amount in amounts if amount is not None}


_NO_SPEC, _NO_STATUS, _NO_POD = _SpecFields(), _StatusFields(), ClusterPod("", "", "")


class PodObject(Struct, gc=False):
    """A pod that keeps only its identity and its `model` once it is decoded, because 50,000 of them are kept."""

    metadata: ObjectMeta
    spec: _SpecFields = _NO_SPEC
    status: _StatusFields = _NO_STATUS
    model: ClusterPod = _NO_POD

    def __post_init__(self) -> None:
        self.model = _pod(self.metadata, self.spec, self.status)
        self.metadata, self.spec, self.status = self.metadata.identity(), _NO_SPEC, _NO_STATUS

    @property
    def finished(self) -> bool:
        """Tells whether the pod has ended and holds nothing any more."""
        return self.model.phase in ("Succeeded", "Failed")


def _pod(meta: ObjectMeta, spec: _SpecFields, status: _StatusFields) -> ClusterPod:
    labels = _shared_labels(meta.labels)
    owner, controller = pod_owner(meta.name, meta.owner_references), controller_of(meta.owner_references)
    devices, bad_demand = _devices(meta, spec, status)
    return ClusterPod(
        uid=meta.uid,
        namespace=intern(meta.namespace),
        name=meta.name,
        node=intern(spec.node_name),
        workload=intern(workload_name(owner.kind, owner.name, meta.labels)),
        owner_kind=intern(controller.kind) if controller else "",
        owner_uid=intern(controller.uid) if controller else "",
        priority=spec.priority,
        priority_class=intern(spec.priority_class_name),
        requests=_shared_requests(spec.requests(status.allocated(), resize_is_infeasible=status.resize_is_infeasible)),
        labels=labels,
        labels_cut=labels.cut,
        annotations=meta.used_annotations(),
        excess=meta.labels.excess or meta.annotations.excess,
        constraints=_constraints(spec, meta.namespace, labels),
        claims=tuple(spec.claims(meta.name)),
        local_volumes=any(each.empty_dir is not None or each.host_path is not None for each in spec.volumes),
        phase=intern(status.phase),
        terminating=meta.deletion_timestamp is not None,
        created_at=meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0,
        ready=condition(status.conditions, "Ready") is True,
        gated=bool(spec.scheduling_gates),
        has_deadline=spec.active_deadline_seconds is not None,
        nominated_node=intern(status.nominated_node_name),
        devices=devices,
        bad_demand=bad_demand,
    )


def _devices(meta: ObjectMeta, spec: _SpecFields, status: _StatusFields) -> tuple[DeviceDemand | None, str]:
    """Returns what the pod asks of devices, None for nothing, and why its annotations cannot be read: then only its
    resources are known."""
    containers = extended_requests(each.resources.requests for each in (*spec.containers, *spec.sidecars))
    claims = PodClaims.of(spec.resource_claims, status.resource_claim_statuses)
    demand, bad_demand = readable_demand(containers, meta.annotations, claims)
    if demand == NO_DEMAND:
        return None, bad_demand
    return _shared(DeviceDemand, msgspec.msgpack.encode(demand), lambda: demand), bad_demand


def _constraints(spec: _SpecFields, namespace: str, labels: Mapping[str, str]) -> PodConstraints:
    """Returns the constraints, which are made once for the pods of one template."""
    keys = {key for each in spec.topology_spread_constraints for key in each.match_label_keys}
    own = sorted((key, labels[key]) for key in keys if key in labels)
    used = (spec.containers, spec.init_containers, spec.node_selector, spec.affinity, spec.tolerations)
    key = msgspec.msgpack.encode((namespace, own, used, spec.topology_spread_constraints))
    return _shared(PodConstraints, key, lambda: spec.constraints(namespace, labels))
