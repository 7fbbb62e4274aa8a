"""What each verb of kube-scheduler's extender webhook asks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Raw, Struct

from extender.wire.arguments import BadRequest, TooManyItems, bounded, decoders, is_null, read_arguments
from extender.wire.nodes import NODE_LIST_SIZES, listed_items, node_list, nodes_by_name, read_node_names
from extender.wire.pod import read_pod
from leadsman.decision.model import CandidateNodes, PodInfo
from leadsman.state import keys


class ExtenderArgs(Struct, frozen=True):
    """raw_nodes: name → the node's own bytes; None in the names form."""

    pod: PodInfo
    node_names: CandidateNodes
    raw_nodes: Mapping[str, Raw | bytes] | None = None


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


class _Uid(Struct):
    uid: str


class _Victim(Struct):
    metadata: _Uid


class _Victims(Struct, rename={"pods": "Pods", "violations": "NumPDBViolations"}):
    pods: list[_Victim] | None = None
    violations: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] = 0


_PREEMPTION = decoders(Pod=Raw, NodeNameToVictims=dict[str, _Victims], NodeNameToMetaVictims=dict[str, MetaVictims])
_BINDING = decoders(PodName=str, PodNamespace=str, PodUID=str, Node=str)


class _ArgsDecoder:
    """Decodes with the smallest list of nodes that has been large enough so far: in the names form the empty one."""

    def __init__(self) -> None:
        self._larger_sizes = list(NODE_LIST_SIZES)
        self._grow()

    def decode(self, body: bytes | bytearray) -> Any:
        """BadRequest."""
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


def read_args(
    body: bytes | bytearray,
    read_names: Callable[[bytes], CandidateNodes] = read_node_names,
    read_pod: Callable[[bytes], PodInfo] = read_pod,
) -> ExtenderArgs:
    """What filter and prioritize ask. BadRequest. read_names, read_pod: those here, or what remembers their results."""
    args = _ARGS.decode(body)
    pod = read_pod(_pod_bytes(args.pod))
    if not is_null(args.nodenames):
        return ExtenderArgs(pod, read_names(bounded(args.nodenames, "$.NodeNames")))
    if args.nodes is not None:
        items = nodes_by_name(listed_items(args.nodes.items))
        return ExtenderArgs(pod, CandidateNodes(items), items)
    raise BadRequest("$.NodeNames: it and $.Nodes are null; one of them must list the nodes (possibly none)")


def most_preemption_bytes(body: bytes | bytearray) -> int:
    """Returns what read_preemption makes of the body at most, beside its bytes; counted without decoding it.

    Each object that is decoded begins with a brace, also those that are a value of a table, and a character takes up to
    four bytes.
    """
    return 3 * len(body) + _VICTIM_BYTES * body.count(b"{")


_VICTIM_BYTES = 320
"""Of an object of preempt's body: a victim, its UID and its entry in a list; or a node's name and its table slot."""


def read_preemption(body: bytes | bytearray) -> PreemptionArgs:
    """Returns what preempt asks, the full pods of the node form reduced to their UIDs. BadRequest."""
    args = read_arguments(_PREEMPTION, body)
    pod = read_pod(_pod_bytes(args.pod))
    if args.nodenametometavictims is not None:
        return PreemptionArgs(pod, args.nodenametometavictims)
    if args.nodenametovictims is not None:
        return PreemptionArgs(pod, {node: _meta_victims(victims) for node, victims in args.nodenametovictims.items()})
    raise BadRequest("$.NodeNameToMetaVictims: it and $.NodeNameToVictims are null; one of them must be an object")


def read_binding(body: bytes | bytearray) -> BindingArgs:
    """Returns what bind asks. BadRequest."""
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


def _meta_victims(victims: _Victims) -> MetaVictims:
    return MetaVictims([MetaPod(pod.metadata.uid) for pod in victims.pods or []], victims.violations)
