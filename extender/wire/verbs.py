"""Reads what each verb of kube-scheduler's extender webhook asks: an object whose keys Go reads whatever their case.

kube-scheduler sends the same bytes to filter and to prioritize when filter refused nothing, and offers mostly the same
nodes for one pod after the other, in another order as its goroutines find them. What is computed for a list of nodes is
kept by the list, so the same nodes are answered in the order met first: kube-scheduler chooses among the best at
random, whatever their order (docs/decisions/0061).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct, structs

from extender.wire.bad_request import MAX_NODES, MAX_OBJECT_BYTES, BadRequest, TooManyItems, bad_request
from extender.wire.nodes import NODE_LIST_SIZES, listed_items, node_list, nodes_by_name
from extender.wire.pod import read_pod
from leadsman.decision.model import CandidateNodes, PodInfo
from leadsman.runtime.decode_errors import UNREADABLE
from leadsman.runtime.lru import LruCache
from leadsman.state import keys


class ExtenderArgs(Struct, frozen=True):
    """Says what filter and prioritize ask. raw_nodes: name → the node's own bytes; None in the names form."""

    pod: PodInfo
    node_names: CandidateNodes
    raw_nodes: Mapping[str, Raw | bytes] | None = None


class MetaPod(Struct, frozen=True, rename={"uid": "UID"}):
    uid: str


class MetaVictims(Struct, frozen=True, rename={"pods": "Pods", "violations": "NumPDBViolations"}):
    """The pods that would be evicted on one node. violations: disruption budgets that the evictions would break."""

    pods: Sequence[MetaPod] | None = None
    violations: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] = 0


class PreemptionArgs(Struct, frozen=True):
    """Says what preempt asks. victims: node → the pods that the scheduler would evict there."""

    pod: PodInfo
    victims: Mapping[str, MetaVictims]


class BindingArgs(Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    node: str


class _Uid(Struct):
    uid: str


class _Victim(Struct):
    metadata: _Uid


class _Victims(Struct, rename={"pods": "Pods", "violations": "NumPDBViolations"}):
    pods: list[_Victim] | None = None
    violations: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] = 0


_NULL_BYTES = b"null"
_NULL = Raw(_NULL_BYTES)

Decoders = Sequence[msgspec.json.Decoder[Any]]


def decoders(**fields: Any) -> Decoders:
    """Makes a decoder for each spelling of the keys. The result's attributes are in lower case; absent, they are None,
    and null in a Raw one."""
    spellings = (str, lambda key: key[0].lower() + key[1:], str.lower)
    return [
        msgspec.json.Decoder(
            msgspec.defstruct(
                "Arguments",
                [
                    (key.lower(), Raw, _NULL) if kind is Raw else (key.lower(), kind | None, None)
                    for key, kind in fields.items()
                ],
                rename={key.lower(): spelling(key) for key in fields},
            )
        )
        for spelling in spellings
    ]


def read_arguments(spellings: Decoders, body: bytes | bytearray) -> Any:
    """Decodes the arguments as Go spells them; only when there are none, those in the other spellings. Raises
    BadRequest."""
    exact, *others = spellings
    try:
        args = exact.decode(body)
        return args if _present_fields(args) else _merged([decoder.decode(body) for decoder in others])
    except UNREADABLE as error:
        raise bad_request(error, body) from error


def _present_fields(args: Struct) -> Mapping[str, Any]:
    fields = msgspec.structs.asdict(args)
    return {key: value for key, value in fields.items() if not (value is None or is_null(value))}


def is_null(value: object) -> bool:
    """Tells whether a value is null, without copying a long one."""
    return isinstance(value, Raw) and len(memoryview(value)) == len(_NULL_BYTES) and bytes(value) == _NULL_BYTES


def _merged(spellings: Sequence[Struct]) -> Any:
    first, *others = spellings
    return msgspec.structs.replace(
        first, **{key: value for args in others for key, value in _present_fields(args).items()}
    )


def bounded(raw: Raw, path: str) -> bytes:
    """Returns the bytes of one object or list of names; raises BadRequest when they are too many."""
    size = memoryview(raw).nbytes
    if size > MAX_OBJECT_BYTES:
        raise BadRequest(f"{path}: has {size} bytes; must have at most {MAX_OBJECT_BYTES}")
    return bytes(raw)


_PREEMPTION = decoders(Pod=Raw, NodeNameToVictims=dict[str, _Victims], NodeNameToMetaVictims=dict[str, MetaVictims])
_BINDING = decoders(PodName=str, PodNamespace=str, PodUID=str, Node=str)


class _ArgsDecoder:
    """Decodes with the smallest list of nodes that has been large enough so far: in the names form the empty one."""

    def __init__(self) -> None:
        self._larger_sizes = list(NODE_LIST_SIZES)
        self._grow()

    def decode(self, body: bytes | bytearray) -> Any:
        """Decodes a body, with a larger node list when the nodes do not fit. Raises BadRequest."""
        while True:
            try:
                return read_arguments(self._decoders, body)
            except TooManyItems:
                if not self._larger_sizes:
                    raise
                self._grow()

    def _grow(self) -> None:
        self._decoders = decoders(Pod=Raw, Nodes=node_list(self._larger_sizes.pop(0)), NodeNames=Raw)


_ARGS = _ArgsDecoder()


def read_args(body: bytes | bytearray, read_names: Callable[[bytes], CandidateNodes] | None = None) -> ExtenderArgs:
    """Reads what filter and prioritize ask. Raises BadRequest. read_names: makes candidates of the bytes of a name
    list."""
    args = _ARGS.decode(body)
    pod = read_pod(_pod_bytes(args.pod))
    if not is_null(args.nodenames):
        listed = bounded(args.nodenames, "$.NodeNames")
        return ExtenderArgs(pod, read_names(listed) if read_names else CandidateNodes.of(_decode_names(listed)))
    if args.nodes is not None:
        items = nodes_by_name(listed_items(args.nodes.items))
        return ExtenderArgs(pod, CandidateNodes(items), items)
    raise BadRequest("$.NodeNames: it and $.Nodes are null; one of them must list the nodes (possibly none)")


_NAMES = msgspec.json.Decoder(list[str] | None)


def _decode_names(listed: bytes) -> Sequence[str]:
    """Returns the names as they are listed, one perhaps twice. Raises BadRequest."""
    if listed.count(b",") >= MAX_NODES:  # No node's name has a comma.
        raise BadRequest(f"$.NodeNames: more than {MAX_NODES} names; must have at most as many, without commas")
    try:
        return _NAMES.decode(listed) or ()
    except UNREADABLE as error:
        raise bad_request(error, listed, "$.NodeNames") from error


CACHED_LISTS = 4
"""So many lists are kept of each of two generations, some 0.4 MB each at 5,000 nodes."""

MAX_CACHED_BYTES = 1 << 20
"""A larger list of names or body is not kept; a body of 5,000 names has 67 KB."""


class CachedArgsReader:
    """Answers and fails as read_args does, except that names may come in another order: the last body's arguments are
    the same object again, and so are nodes met before, in any order.

    prioritize lists the nodes as filter's answer did, in the order met first, whatever filter was asked: those bytes
    are known by themselves, which takes 0.1 ms at 5,000 names in place of 0.8.
    """

    def __init__(self) -> None:
        self._lists: LruCache[bytes, CandidateNodes] = LruCache(CACHED_LISTS)
        self._nodes: LruCache[frozenset[str], CandidateNodes] = LruCache(CACHED_LISTS)
        self._last: tuple[bytes | bytearray, ExtenderArgs] | None = None

    def read_args(self, body: bytes | bytearray) -> ExtenderArgs:
        """Reads the arguments of a body, which must not be altered afterwards. Raises BadRequest."""
        if self._last and self._last[0] == body:
            return self._last[1]
        args = read_args(body, self._read_names)
        self._last = (body, args) if len(body) <= MAX_CACHED_BYTES else None
        return args

    def read_node_args(self, body: bytes, nodes: Mapping[str, bytes]) -> ExtenderArgs:
        """Reads a body whose nodes were read while it came. Raises BadRequest. body: with an empty list of them."""
        return structs.replace(read_args(body), node_names=self._in_order_met_first(nodes), raw_nodes=nodes)

    def _read_names(self, listed: bytes) -> CandidateNodes:
        names = self._lists.get(listed)
        if names is None:
            names = self._in_order_met_first(_decode_names(listed))
            if len(listed) <= MAX_CACHED_BYTES:
                self._lists.put(listed, names)
        return names

    def _in_order_met_first(self, names: Collection[str]) -> CandidateNodes:
        nodes = frozenset(names)
        met_first = self._nodes.get(nodes)
        if met_first is None:
            met_first = CandidateNodes.of(names)
            self._nodes.put(nodes, met_first)
        return met_first


def most_preemption_bytes(body: bytes | bytearray) -> int:
    """Bounds the memory of what read_preemption makes of the body, beside its bytes, without decoding it.

    Each object that is decoded begins with a brace, also those that are a value of a table, and a character takes up to
    four bytes.
    """
    return 3 * len(body) + _VICTIM_BYTES * body.count(b"{")


_VICTIM_BYTES = 320
"""Memory that an object of preempt's body takes: a victim, its UID and its entry in a list; or a node's name and its
table slot."""


def read_preemption(body: bytes | bytearray) -> PreemptionArgs:
    """Returns what preempt asks, the full pods of the node form reduced to their UIDs. Raises BadRequest."""
    args = read_arguments(_PREEMPTION, body)
    pod = read_pod(_pod_bytes(args.pod))
    if args.nodenametometavictims is not None:
        return PreemptionArgs(pod, args.nodenametometavictims)
    if args.nodenametovictims is not None:
        victims = {
            node: MetaVictims([MetaPod(pod.metadata.uid) for pod in each.pods or []], each.violations)
            for node, each in args.nodenametovictims.items()
        }
        return PreemptionArgs(pod, victims)
    raise BadRequest("$.NodeNameToMetaVictims: it and $.NodeNameToVictims are null; one of them must be an object")


def read_binding(body: bytes | bytearray) -> BindingArgs:
    """Returns what bind asks. Raises BadRequest."""
    if len(body) > _MAX_BINDING_BYTES:
        raise BadRequest(f"$: has {len(body)} bytes; a binding is four names, and has at most {_MAX_BINDING_BYTES}")
    args = read_arguments(_BINDING, body)
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


def _pod_bytes(raw: Raw) -> bytes:
    if is_null(raw):
        raise BadRequest("$.Pod: null or absent; must be the pod to place")
    return bounded(raw, "$.Pod")
