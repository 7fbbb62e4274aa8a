"""Reads what decisions need of a pod, from a request or a file."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct

from extender.wire.bad_request import BadRequest, bad_request
from leadsman.cluster.devices.demand import NO_DEMAND, DeviceDemand, PodClaims, extended_requests, readable_demand
from leadsman.cluster.resources import ContainerRequest, Resources, pod_requests
from leadsman.decision.model import PodInfo
from leadsman.kube import quantity
from leadsman.kube.bounded_metadata import BoundedAnnotations, BoundedLabels
from leadsman.kube.objects import OwnerReference, controller_of, pod_owner, workload_name
from leadsman.runtime.decode_errors import UNREADABLE

T = TypeVar("T")

_NO_VALUE = Raw(b"null")


class _Metadata(Struct):
    name: str
    namespace: str = "default"
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owners: list[OwnerReference] | None = msgspec.field(default=None, name="ownerReferences")


_Amounts = dict[str, str | int | float]


class _Resources(Struct):
    requests: _Amounts | None = None


class _Container(Struct):
    name: str
    resources: Raw = _NO_VALUE
    restart_policy: str | None = msgspec.field(default=None, name="restartPolicy")


class _ResourceClaim(Struct, rename="camel"):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class _Spec(Struct, rename="camel"):
    priority: int | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: Raw = _NO_VALUE
    resources: Raw = _NO_VALUE
    resource_claims: Raw = _NO_VALUE


class _Status(Struct, rename="camel"):
    resource_claim_statuses: Raw = _NO_VALUE


class _Pod(Struct):
    metadata: _Metadata
    spec: _Spec | None = None
    status: _Status | None = None


_POD = msgspec.json.Decoder(_Pod)
_CLAIMS = msgspec.json.Decoder(list[_ResourceClaim] | None)
_RESOURCES = msgspec.json.Decoder(_Resources | None)
_OVERHEAD = msgspec.json.Decoder(_Amounts | None)

MAX_TEMPLATES, MAX_TEMPLATE_BYTES = 256, 4096
"""The requests of so many templates of pods are kept, unless that takes more bytes of JSON."""

MAX_CLAIM_VALUES = 1_000
"""Braces and colons in the claims of a pod: it has at most 32 claims of two fields each."""


def read_pod(value: bytes) -> PodInfo:
    """Decodes the bytes of a pod. Raises BadRequest."""
    try:
        pod = _POD.decode(value)
    except UNREADABLE as error:
        raise bad_request(error, value, "$.Pod") from error
    meta = pod.metadata
    labels, annotations = BoundedLabels.of(meta.labels or {}), BoundedAnnotations.read_of(meta.annotations or {})
    owners = meta.owners or ()
    controller, workload = controller_of(owners), workload_name(*pod_owner(meta.name, owners), labels)
    asked = _asked(pod.spec)
    devices, bad_demand = _devices(pod, asked, annotations)
    return PodInfo(
        meta.namespace,
        meta.name,
        meta.uid,
        labels,
        annotations,
        workload,
        labels.excess or annotations.excess,
        (pod.spec and pod.spec.priority) or 0,
        controller.uid if controller else "",
        asked.requests,
        devices,
        bad_demand,
    )


class _Asked(NamedTuple):
    """Says what the containers of a pod request.

    requests: as kube-scheduler counts them; None: there are no containers, or a quantity cannot be read.
    extended: of each container, its extended resources. problem: why these cannot be read; "" when they can.
    """

    requests: Resources | None = None
    extended: tuple[Mapping[str, int], ...] = ()
    problem: str = ""


_Containers = tuple[tuple[bytes, bool], ...]
"""Containers of a pod: the resources of each, as JSON, and whether it goes on beside those after it."""


def _asked(spec: _Spec | None) -> _Asked:
    """Returns what the containers ask, which is computed once for the pods of a template. Raises BadRequest."""
    if spec is None or not spec.containers:
        return _Asked()
    containers, init_containers = (
        tuple([(bytes(each.resources), each.restart_policy == "Always") for each in listed])
        for listed in (spec.containers, spec.init_containers or ())
    )
    whole = bytes(spec.overhead), bytes(spec.resources)
    size = sum(len(resources) for resources, _ in (*containers, *init_containers)) + sum(map(len, whole))
    ask = _ask if size <= MAX_TEMPLATE_BYTES else _ask.__wrapped__
    return ask(containers, init_containers, *whole)


@lru_cache(MAX_TEMPLATES)
def _ask(containers: _Containers, init_containers: _Containers, overhead: bytes, whole_pod: bytes) -> _Asked:
    amounts = [_requests(each, f"$.Pod.spec.containers[{number}]") for number, (each, _) in enumerate(containers)]
    init = [_requests(each, f"$.Pod.spec.initContainers[{number}]") for number, (each, _) in enumerate(init_containers)]
    of_pod, extra = _requests(whole_pod, "$.Pod.spec"), _decoded(_OVERHEAD, overhead, "$.Pod.spec.overhead") or {}
    try:
        requests = pod_requests(
            [ContainerRequest(Resources.of(each)) for each in amounts],
            [
                ContainerRequest(Resources.of(each), None, goes_on)
                for each, (_, goes_on) in zip(init, init_containers, strict=True)
            ],
            Resources.of(extra),
            dict(Resources.of(of_pod).items()),
        )
    except quantity.BadQuantity:
        requests = None
    try:
        sidecars = [each for each, (_, goes_on) in zip(init, init_containers, strict=True) if goes_on]
        return _Asked(requests, extended_requests([*amounts, *sidecars]))
    except quantity.BadQuantity as error:
        return _Asked(requests, problem=f"a container's requests cannot be read: {error}")


def _requests(resources: bytes, path: str) -> _Amounts:
    decoded = _decoded(_RESOURCES, resources, f"{path}.resources")
    return (decoded and decoded.requests) or {}


def _decoded(decoder: msgspec.json.Decoder[T], value: bytes, path: str) -> T:
    try:
        return decoder.decode(value)
    except UNREADABLE as error:
        raise bad_request(error, value, path) from error


def _devices(pod: _Pod, asked: _Asked, annotations: Mapping[str, str]) -> tuple[DeviceDemand, str]:
    """Returns what the pod asks of devices, or why that cannot be read. Raises BadRequest."""
    in_spec = _claims(pod.spec.resource_claims if pod.spec else None, "$.Pod.spec.resourceClaims")
    if not (in_spec or annotations or asked.extended or asked.problem):
        return NO_DEMAND, ""
    made = pod.status.resource_claim_statuses if pod.status else None
    claims = PodClaims.of(in_spec, _claims(made, "$.Pod.status.resourceClaimStatuses"))
    if asked.problem:
        return DeviceDemand(claims=claims.names, templates=claims.templates), asked.problem
    return readable_demand(asked.extended, annotations, claims)


def _claims(raw: Raw | None, path: str) -> Sequence[_ResourceClaim]:
    """Returns a list of claims in a pod, bounded before they are made."""
    if raw is None or raw is _NO_VALUE:
        return ()
    value = bytes(raw)
    if value.count(b"{") + value.count(b":") > MAX_CLAIM_VALUES:
        raise BadRequest(f"{path}: has more than {MAX_CLAIM_VALUES} values; must have at most as many")
    return _decoded(_CLAIMS, value, path) or ()
