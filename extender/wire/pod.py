"""The pod of a request, or of a file: what decisions read of it."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from extender.wire.arguments import BadRequest, bad_request, is_null
from leadsman.cluster.devices.demand import (
    DeviceDemand,
    PodClaims,
    extended_requests,
    readable_demand,
)
from leadsman.cluster.resources import ContainerRequest, Resources, pod_requests
from leadsman.decision.inputs import workload_name
from leadsman.decision.model import PodInfo
from leadsman.kube import quantity
from leadsman.kube.bounded_metadata import BoundedAnnotations, BoundedLabels
from leadsman.kube.objects import controller_of, pod_owner
from leadsman.runtime.decode_errors import UNREADABLE

_NO_VALUE = Raw(b"null")


class _Owner(Struct):
    kind: str
    name: str
    controller: bool | None = None
    uid: str = ""


class _Metadata(Struct):
    name: str
    namespace: str = "default"
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owners: list[_Owner] | None = msgspec.field(default=None, name="ownerReferences")


class _Resources(Struct):
    requests: dict[str, str | int | float] | None = None


class _Container(Struct):
    name: str
    resources: _Resources | None = None
    restart_policy: str | None = msgspec.field(default=None, name="restartPolicy")


class _ResourceClaim(Struct, rename="camel"):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class _Spec(Struct, rename="camel"):
    priority: int | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: dict[str, str | int | float] | None = None
    resources: _Resources | None = None
    resource_claims: Raw = _NO_VALUE


class _Status(Struct, rename="camel"):
    resource_claim_statuses: Raw = _NO_VALUE


class _Pod(Struct):
    metadata: _Metadata
    spec: _Spec | None = None
    status: _Status | None = None


_POD = msgspec.json.Decoder(_Pod)
_CLAIMS = msgspec.json.Decoder(list[_ResourceClaim] | None)

MAX_CLAIM_VALUES = 1_000
"""Braces and colons in the claims of a pod: it has at most 32 claims of two fields each."""


def read_pod(value: bytes) -> PodInfo:
    """The bytes of a pod. BadRequest."""
    try:
        pod = _POD.decode(value)
    except UNREADABLE as error:
        raise bad_request(error, value, "$.Pod") from error
    meta = pod.metadata
    labels, annotations = BoundedLabels.of(meta.labels or {}), BoundedAnnotations.read_of(meta.annotations or {})
    owners = meta.owners or ()
    controller = controller_of(owners)
    devices, bad_demand = _devices(pod, annotations)
    return PodInfo(
        meta.namespace,
        meta.name,
        meta.uid,
        labels,
        annotations,
        workload_name(*pod_owner(meta.name, owners), labels),
        labels.excess or annotations.excess,
        (pod.spec and pod.spec.priority) or 0,
        controller.uid if controller else "",
        _requests(pod.spec),
        devices,
        bad_demand,
    )


def _requests(spec: _Spec | None) -> Mapping[str, int] | None:
    """As kube-scheduler counts them, in nanos; None: it has no containers, or a quantity that cannot be read."""
    if spec is None or not spec.containers:
        return None
    try:
        whole_pod = Resources.of((spec.resources and spec.resources.requests) or {})
        requests = pod_requests(
            list(map(_container_request, spec.containers)),
            list(map(_container_request, spec.init_containers or ())),
            Resources.of(spec.overhead or {}),
            dict(whole_pod.items()),
        )
    except quantity.BadQuantity:
        return None
    return requests.in_nanos()


def _container_request(container: _Container) -> ContainerRequest:
    asked = Resources.of((container.resources and container.resources.requests) or {})
    return ContainerRequest(asked, None, container.restart_policy == "Always")


def _devices(pod: _Pod, annotations: Mapping[str, str]) -> tuple[DeviceDemand, str]:
    """Returns what the pod asks of devices, or why that cannot be read. BadRequest."""
    containers = (pod.spec and pod.spec.containers) or ()
    in_spec = _claims(pod.spec.resource_claims if pod.spec else None, "$.Pod.spec.resourceClaims")
    made = pod.status.resource_claim_statuses if pod.status else None
    in_status = _claims(made, "$.Pod.status.resourceClaimStatuses")
    claims = PodClaims.of(in_spec, in_status)
    try:
        extended = extended_requests((each.resources and each.resources.requests) or {} for each in containers)
    except quantity.BadQuantity as error:
        demand = DeviceDemand(claims=claims.names, templates=claims.templates)
        return demand, f"a container's requests cannot be read: {error}"
    return readable_demand(extended, annotations, claims)


def _claims(raw: Raw | None, path: str) -> Sequence[_ResourceClaim]:
    """A list of claims in a pod, bounded before they are made."""
    if raw is None or is_null(raw):
        return ()
    value = bytes(raw)
    if value.count(b"{") + value.count(b":") > MAX_CLAIM_VALUES:
        raise BadRequest(f"{path}: has more than {MAX_CLAIM_VALUES} values; must have at most as many")
    try:
        return _CLAIMS.decode(value) or ()
    except UNREADABLE as error:
        raise bad_request(error, value, path) from error
