"""kube-scheduler's requests, decoded. Source: k8s.io/kube-scheduler/extender/v1/types.go.

    filter, prioritize   {"Pod", "Nodes", "NodeNames"}                             → ExtenderArgs
    preempt              {"Pod", "NodeNameToVictims", "NodeNameToMetaVictims"}     → PreemptionArgs
    bind                 {"PodName", "PodNamespace", "PodUID", "Node"}             → BindingArgs

Go reads keys whatever their case, so NodeNames, nodeNames and nodenames are all accepted. Unknown fields are skipped.
BadRequest is the only error, and its text is the answer's: path, what was there, what is allowed.

A decoded value may be fifty times as large as its bytes: `{},` is three. So what is large in number or size is decoded
part by part, each part bounded before: pod and node by MAX_OBJECT_BYTES, nodes by MAX_NODES, victims by what
`most_preemption_bytes` says to the caller.
"""

import re
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from leadsman.cluster.devices.demand import (
    BadDemand,
    DeviceDemand,
    claim_names,
    device_demand,
    extended_requests,
)
from leadsman.cluster.resources import ContainerRequest, Resources, pod_requests
from leadsman.decision.model import CandidateNodes, PodInfo
from leadsman.decision.workloads import workload_name
from leadsman.kube import quantity
from leadsman.kube.bounded_metadata import BoundedAnnotations, BoundedLabels
from leadsman.kube.owners import controller_of, pod_owner
from leadsman.runtime.decode_errors import UNREADABLE, explain
from leadsman.state import keys

MAX_NODES = 20_000
"""Of a request: four times what Kubernetes supports in a cluster, and what the followed state may hold."""

MAX_OBJECT_BYTES = 4 << 20
"""Of a pod or node: etcd holds at most 1.5 MiB of one, mostly not as JSON."""


class BadRequest(ValueError):
    """The body is not what the verb takes: `path: what is wrong; what is allowed`."""


class ExtenderArgs(Struct, frozen=True):
    """raw_nodes: name → the node's own bytes; None in the names form."""

    pod: PodInfo
    node_names: CandidateNodes
    raw_nodes: Mapping[str, Raw] | None = None


class MetaPod(Struct, frozen=True, rename={"uid": "UID"}):
    uid: str


class MetaVictims(Struct, frozen=True, rename={"pods": "Pods", "violations": "NumPDBViolations"}):
    """violations: disruption budgets that the evictions would break."""

    pods: Sequence[MetaPod] | None = None
    violations: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] = 0


class PreemptionArgs(Struct, frozen=True):
    """victims: node → the pods that the scheduler would evict there."""

    pod: PodInfo
    victims: Mapping[str, MetaVictims]


class BindingArgs(Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    node: str


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


_NO_ITEM = Raw(b"")
_Items = msgspec.defstruct(
    "Items",
    [(f"item{number}", Raw, _NO_ITEM) for number in range(MAX_NODES)],
    array_like=True,
    forbid_unknown_fields=True,
    gc=False,
)
"""A list of up to MAX_NODES items. msgspec refuses an array at the first item that has no field, where the length of
a list is checked after all its items are made."""


class _NodeList(Struct):
    items: _Items | None = None  # type: ignore[valid-type]  # msgspec makes this type


class _Name(Struct):
    name: str


class _Node(Struct):
    metadata: _Name


class _Uid(Struct):
    uid: str


class _Victim(Struct):
    metadata: _Uid


class _Victims(Struct, rename={"pods": "Pods", "violations": "NumPDBViolations"}):
    pods: list[_Victim] | None = None
    violations: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] = 0


_NULL_BYTES = b"null"
_NULL = Raw(_NULL_BYTES)

_Decoders = Sequence[msgspec.json.Decoder[Any]]


def _decoders(**fields: Any) -> _Decoders:
    """One decoder for each spelling of the keys. The result's attributes are in lower case; absent, they are None, and
    null in a Raw one."""
    spellings = (str, lambda key: key[0].lower() + key[1:], str.lower)
    return [
        msgspec.json.Decoder(
            msgspec.defstruct(
                "Arguments",
                [_optional(key.lower(), kind) for key, kind in fields.items()],
                rename={key.lower(): spelling(key) for key in fields},
            )
        )
        for spelling in spellings
    ]


def _optional(field: str, kind: Any) -> tuple[str, Any, Any]:
    return (field, Raw, _NULL) if kind is Raw else (field, kind | None, None)


_ARGS = _decoders(Pod=Raw, Nodes=_NodeList, NodeNames=Raw)
_NAMES = msgspec.json.Decoder(list[str] | None)
_PREEMPTION = _decoders(Pod=Raw, NodeNameToVictims=dict[str, _Victims], NodeNameToMetaVictims=dict[str, MetaVictims])
_BINDING = _decoders(PodName=str, PodNamespace=str, PodUID=str, Node=str)
_POD = msgspec.json.Decoder(_Pod)
_NODE = msgspec.json.Decoder(_Node)
_CLAIMS = msgspec.json.Decoder(list[_ResourceClaim] | None)

MAX_CLAIM_VALUES = 1_000
"""Braces and colons in the claims of a pod: it has at most 32 claims of two fields each."""


def read_node_names(listed: bytes) -> CandidateNodes:
    """The bytes of a list of names. BadRequest."""
    if listed.count(b",") >= MAX_NODES:  # No node's name has a comma.
        raise BadRequest(f"$.NodeNames: more than {MAX_NODES} names; must have at most as many, without commas")
    try:
        return CandidateNodes.of(_NAMES.decode(listed) or ())
    except UNREADABLE as error:
        raise BadRequest(_error_message(error, listed, "$.NodeNames")) from error


def read_pod(value: bytes) -> PodInfo:
    """The bytes of a pod. BadRequest."""
    try:
        pod = _POD.decode(value)
    except UNREADABLE as error:
        raise BadRequest(_error_message(error, value, "$.Pod")) from error
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


def read_args(
    body: bytes | bytearray,
    read_names: Callable[[bytes], CandidateNodes] = read_node_names,
    read_pod: Callable[[bytes], PodInfo] = read_pod,
) -> ExtenderArgs:
    """What filter and prioritize ask. BadRequest. read_names, read_pod: those here, or what remembers their results."""
    args = _read(_ARGS, body)
    pod = read_pod(_pod_bytes(args.pod))
    if not _is_null(args.nodenames):
        return ExtenderArgs(pod, read_names(_bounded(args.nodenames, "$.NodeNames")))
    if args.nodes is not None:
        items = _nodes_by_name(_list_of(args.nodes.items))
        return ExtenderArgs(pod, CandidateNodes(items), items)
    raise BadRequest("$.NodeNames: it and $.Nodes are null; one of them must list the nodes (possibly none)")


def most_preemption_bytes(body: bytes | bytearray) -> int:
    """What read_preemption makes of the body at most, beside its bytes; counted without decoding it.

    Each object that is decoded begins with a brace, also those that are a value of a table, and a character takes up to
    four bytes.
    """
    return 3 * len(body) + _VICTIM_BYTES * body.count(b"{")


_VICTIM_BYTES = 320
"""Of an object of preempt's body: a victim, its UID and its entry in a list; or a node's name and its table slot."""


def read_preemption(body: bytes | bytearray) -> PreemptionArgs:
    """What preempt asks, the full pods of the node form reduced to their UIDs. BadRequest."""
    args = _read(_PREEMPTION, body)
    pod = read_pod(_pod_bytes(args.pod))
    if args.nodenametometavictims is not None:
        return PreemptionArgs(pod, args.nodenametometavictims)
    if args.nodenametovictims is not None:
        return PreemptionArgs(pod, {node: _meta_victims(victims) for node, victims in args.nodenametovictims.items()})
    raise BadRequest("$.NodeNameToMetaVictims: it and $.NodeNameToVictims are null; one of them must be an object")


def read_binding(body: bytes | bytearray) -> BindingArgs:
    """What bind asks. BadRequest."""
    if len(body) > _MAX_BINDING_BYTES:
        raise BadRequest(f"$: has {len(body)} bytes; a binding is four names, and has at most {_MAX_BINDING_BYTES}")
    args = _read(_BINDING, body)
    for key in ("PodName", "PodNamespace", "Node"):
        _check_name(f"$.{key}", getattr(args, key.lower()) or "")
    return BindingArgs(args.podnamespace, args.podname, args.poduid or "", args.node)


_MAX_BINDING_BYTES = 64 << 10


def _check_name(path: str, name: str) -> None:
    """Pods' and namespaces' names follow the rule of nodes' names. Checked because they become parts of a URL."""
    try:
        keys.check_node_name(name)
    except ValueError as error:
        raise BadRequest(f"{path}: {str(error).removeprefix('node ')}") from error


def _read(decoders: _Decoders, body: bytes | bytearray) -> Any:
    """The arguments as Go spells them; only when there are none, those in the other spellings. BadRequest."""
    exact, *others = decoders
    try:
        args = exact.decode(body)
        return args if _present_fields(args) else _merged([decoder.decode(body) for decoder in others])
    except UNREADABLE as error:
        raise BadRequest(_error_message(error, body)) from error


def _present_fields(args: Struct) -> Mapping[str, Any]:
    fields = msgspec.structs.asdict(args)
    return {key: value for key, value in fields.items() if not (value is None or _is_null(value))}


def _is_null(value: object) -> bool:
    """Without a copy of what is long."""
    return isinstance(value, Raw) and len(memoryview(value)) == len(_NULL_BYTES) and bytes(value) == _NULL_BYTES


def _merged(spellings: Sequence[Struct]) -> Any:
    first, *others = spellings
    return msgspec.structs.replace(
        first, **{key: value for args in others for key, value in _present_fields(args).items()}
    )


def _bounded(raw: Raw, path: str) -> bytes:
    """The bytes of one object, or of a list of names. BadRequest when they are too many."""
    size = memoryview(raw).nbytes
    if size > MAX_OBJECT_BYTES:
        raise BadRequest(f"{path}: has {size} bytes; must have at most {MAX_OBJECT_BYTES}")
    return bytes(raw)


def _pod_bytes(raw: Raw) -> bytes:
    if _is_null(raw):
        raise BadRequest("$.Pod: null or absent; must be the pod to place")
    return _bounded(raw, "$.Pod")


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
    nanos = {name: amount * quantity.NANO for name, amount in requests.extended.items()}
    return {
        "cpu": requests.cpu_millis * quantity.NANO // 1000,
        "memory": requests.memory_bytes * quantity.NANO,
        **nanos,
    }


def _container_request(container: _Container) -> ContainerRequest:
    asked = Resources.of((container.resources and container.resources.requests) or {})
    return ContainerRequest(asked, None, container.restart_policy == "Always")


def _devices(pod: _Pod, annotations: Mapping[str, str]) -> tuple[DeviceDemand, str]:
    """What the pod asks of devices, or why that cannot be read. BadRequest."""
    containers = (pod.spec and pod.spec.containers) or ()
    in_spec = _claims(pod.spec.resource_claims if pod.spec else None, "$.Pod.spec.resourceClaims")
    made = pod.status.resource_claim_statuses if pod.status else None
    in_status = _claims(made, "$.Pod.status.resourceClaimStatuses")
    claims = claim_names(in_spec, in_status)
    try:
        extended = extended_requests((each.resources and each.resources.requests) or {} for each in containers)
    except quantity.BadQuantity as error:
        return DeviceDemand(claims=claims), f"a container's requests cannot be read: {error}"
    try:
        return device_demand(extended, annotations, claims), ""
    except BadDemand as error:
        return device_demand(extended, {}, claims), str(error)


def _claims(raw: Raw | None, path: str) -> Sequence[_ResourceClaim]:
    """A list of claims in a pod, bounded before they are made."""
    if raw is None or _is_null(raw):
        return ()
    value = bytes(raw)
    if value.count(b"{") + value.count(b":") > MAX_CLAIM_VALUES:
        raise BadRequest(f"{path}: has more than {MAX_CLAIM_VALUES} values; must have at most as many")
    try:
        return _CLAIMS.decode(value) or ()
    except UNREADABLE as error:
        raise BadRequest(_error_message(error, value, path)) from error


def _meta_victims(victims: _Victims) -> MetaVictims:
    return MetaVictims([MetaPod(pod.metadata.uid) for pod in victims.pods or []], victims.violations)


# As kube-scheduler writes a node. Read so, 5,000 nodes are named in 4 ms; decoding each takes 56 ms.
_NAME_FIRST = re.compile(rb'\{"metadata":\{"name":"([-.a-z0-9]+)"')


def _list_of(items: Struct | None) -> list[Raw]:
    """The items that are there: those after them have no bytes."""
    if items is None:
        return []
    raw_items = list(msgspec.structs.astuple(items))
    del raw_items[bisect(raw_items, 0, key=_is_absent) :]
    return raw_items


def _is_absent(item: Raw) -> bool:
    return memoryview(item).nbytes == 0


def _nodes_by_name(items: Sequence[Raw]) -> dict[str, Raw]:
    """Name → the bytes of the first item of that name, in the order given."""
    named: dict[str, Raw] = {}
    for position, item in enumerate(items):
        _check_item(item, position)
        first = _NAME_FIRST.match(memoryview(item))
        named.setdefault(first[1].decode() if first else _name(item, position), item)
    return named


def _check_item(item: Raw, position: int) -> None:
    """The item is answered as it came, and most of it is never decoded."""
    if (size := memoryview(item).nbytes) > MAX_OBJECT_BYTES:
        raise BadRequest(f"$.Nodes.items[{position}]: has {size} bytes; must have at most {MAX_OBJECT_BYTES}")
    try:
        str(memoryview(item), "utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"$.Nodes.items[{position}]: {error}; must be UTF-8") from error


def _name(item: Raw, position: int) -> str:
    try:
        return _NODE.decode(item).metadata.name
    except UNREADABLE as error:
        raise BadRequest(_error_message(error, bytes(item), f"$.Nodes.items[{position}]")) from error


_TOO_MANY_ITEMS = f"expected array of at most length {MAX_NODES}"
_LARGEST_REREAD_BYTES = 1 << 20


def _error_message(error: Exception, body: bytes | bytearray, root: str = "$") -> str:
    """The fault by its path: `$.Pod.metadata.labels.delay_x: expected str, got int`."""
    path, what = explain(error)
    if what == _TOO_MANY_ITEMS:  # msgspec gives no path here.
        return f"$.Nodes.items: more than {MAX_NODES} items; must have at most as many"
    if path.endswith("[...]") and len(body) <= _LARGEST_REREAD_BYTES:
        path = _locate_value(path, body)
    return f"{root}{path[1:]}: {what}"


def _locate_value(path: str, body: bytes | bytearray) -> str:
    """`$.Pod.metadata.labels[...]` with the first key or index whose value is no string, all we ask of them."""
    *keys, last = path[2:].removesuffix("[...]").split(".")
    try:
        found: Any = msgspec.json.decode(body)
        for key in (*keys, last):
            found = found[key]
        if isinstance(found, list):
            return path.replace("[...]", f"[{next(n for n, value in enumerate(found) if not isinstance(value, str))}]")
        return path.replace("[...]", "." + next(k for k, value in found.items() if not isinstance(value, str)))
    except (LookupError, TypeError, AttributeError, StopIteration, ValueError, RecursionError):
        return path
