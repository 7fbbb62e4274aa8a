"""A pod of the API server as the cluster model has it. What the model does not use is dropped while it is decoded."""

from collections.abc import Iterator, Mapping
from sys import intern

import msgspec
from msgspec import Struct

from leadsman.cluster.constraints import PodConstraints
from leadsman.cluster.devices.demand import (
    NO_DEMAND,
    DeviceDemand,
    PodClaims,
    extended_requests,
    readable_demand,
)
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.decision.inputs import workload_name
from leadsman.kube.objects import controller_of, pod_owner
from leadsman.sources.cluster.object_metadata import ConditionFields, MetadataFields, condition
from leadsman.sources.cluster.pod_fields import ContainerStatusFields, ResourceClaimFields, TemplateFields
from leadsman.sources.cluster.shared_values import SharedValues, shared_labels

_CONSTRAINTS: SharedValues[PodConstraints] = SharedValues()
_REQUESTS: SharedValues[Resources] = SharedValues()
_DEMANDS: SharedValues[DeviceDemand] = SharedValues()


class _ClaimReference(Struct, frozen=True, gc=False, rename="camel"):
    claim_name: str


class _VolumeFields(Struct, frozen=True, gc=False, rename="camel"):
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
        """Claims of this pod; that of an ephemeral volume is named after both."""
        for volume in self.volumes:
            if volume.persistent_volume_claim is not None:
                yield volume.persistent_volume_claim.claim_name
            elif volume.ephemeral is not None:
                yield f"{pod}-{volume.name}"


class _StatusFields(Struct, frozen=True, gc=False, rename="camel"):
    phase: str = "Pending"
    nominated_node_name: str = ""
    conditions: tuple[ConditionFields, ...] = ()
    container_statuses: tuple[ContainerStatusFields, ...] = ()
    init_container_statuses: tuple[ContainerStatusFields, ...] = ()
    resource_claim_statuses: tuple[ResourceClaimFields, ...] = ()

    @property
    def resize_is_infeasible(self) -> bool:
        """Whether the kubelet has said that a resize never fits its node: the pod then keeps what it has (KEP-1287)."""
        return any(each.type == "PodResizePending" and each.reason == "Infeasible" for each in self.conditions)

    def allocated(self) -> dict[str, Resources]:
        """Container → what the kubelet reports of it."""
        statuses = (*self.container_statuses, *self.init_container_statuses)
        amounts = ((each.name, each.allocated()) for each in statuses)
        return {name: amount for name, amount in amounts if amount is not None}


_NO_SPEC, _NO_STATUS, _NO_POD = _SpecFields(), _StatusFields(), ClusterPod("", "", "")


class PodObject(Struct, gc=False):
    """A pod: once it is decoded, its identity and `model`. The rest is dropped at once: 50,000 of these are kept."""

    metadata: MetadataFields
    spec: _SpecFields = _NO_SPEC
    status: _StatusFields = _NO_STATUS
    model: ClusterPod = _NO_POD

    def __post_init__(self) -> None:
        self.model = _pod(self.metadata, self.spec, self.status)
        self.metadata, self.spec, self.status = self.metadata.identity(), _NO_SPEC, _NO_STATUS

    @property
    def finished(self) -> bool:
        """Whether it has ended and holds nothing any more."""
        return self.model.phase in ("Succeeded", "Failed")


def _pod(meta: MetadataFields, spec: _SpecFields, status: _StatusFields) -> ClusterPod:
    labels = shared_labels(meta.labels)
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
        requests=_requests(spec, status),
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


def _requests(spec: _SpecFields, status: _StatusFields) -> Resources:
    allocated = status.allocated()
    requests = spec.requests(allocated, resize_is_infeasible=status.resize_is_infeasible)
    return _REQUESTS.get(
        (requests.cpu_millis, requests.memory_bytes, *sorted(requests.extended.items())), lambda: requests
    )


def _devices(meta: MetadataFields, spec: _SpecFields, status: _StatusFields) -> tuple[DeviceDemand | None, str]:
    """What the pod asks of devices, None for nothing, and why its annotations cannot be read: then only its resources
    are known."""
    containers = extended_requests(each.resources.requests for each in spec.containers)
    claims = PodClaims.of(spec.resource_claims, status.resource_claim_statuses)
    demand, bad_demand = readable_demand(containers, meta.annotations, claims)
    if demand == NO_DEMAND:
        return None, bad_demand
    return _DEMANDS.get(msgspec.msgpack.encode(demand), lambda: demand), bad_demand


def _constraints(spec: _SpecFields, namespace: str, labels: Mapping[str, str]) -> PodConstraints:
    """Made once for the pods of one template."""
    keys = {key for each in spec.topology_spread_constraints for key in each.match_label_keys}
    own = sorted((key, labels[key]) for key in keys if key in labels)
    used = (spec.containers, spec.init_containers, spec.node_selector, spec.affinity, spec.tolerations)
    key = msgspec.msgpack.encode((namespace, own, used, spec.topology_spread_constraints))
    return _CONSTRAINTS.get(key, lambda: spec.constraints(namespace, labels))
