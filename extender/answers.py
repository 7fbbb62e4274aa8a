"""Our answers, as kube-scheduler's Go types read them. Source: k8s.io/kube-scheduler/extender/v1/types.go.

What the wire punishes and these encoders cannot express: `{}` or null rejects every node, even of an ignorable
extender; a score that is no JSON integer voids all scores; a node in FailedNodes is a candidate for preemption,
so every refusal stands in FailedAndUnresolvableNodes.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from extender.wire import Asked, MetaVictims

_encode = msgspec.json.Encoder().encode


class _NodeList(Struct):
    items: Sequence[Raw]
    metadata: dict[str, str] = {}


class _Filtered(Struct, rename="pascal"):
    nodes: _NodeList | None
    node_names: Sequence[str] | None
    failed_and_unresolvable_nodes: Mapping[str, str]
    failed_nodes: dict[str, str] = {}
    error: str = ""


class _HostPriority(Struct, rename="pascal", gc=False):
    host: str
    score: int


class _Preempted(Struct, rename="pascal"):
    node_name_to_meta_victims: Mapping[str, MetaVictims]


class _Bound(Struct, rename="pascal"):
    error: str


def filtered(asked: Asked, kept: Sequence[str], reasons: Mapping[str, str]) -> bytes:
    """`kept` in the form asked, full nodes byte for byte; reasons: refused node → why."""
    if asked.items is None:
        return _encode(_Filtered(None, kept, reasons))
    items = asked.items
    return _encode(_Filtered(_NodeList([items[name] for name in kept]), None, reasons))


def prioritized(scores: Mapping[str, int]) -> bytes:
    return _encode([_HostPriority(host, score) for host, score in scores.items()])


def preempted(victims: Mapping[str, MetaVictims]) -> bytes:
    return _encode(_Preempted(victims))


def bound(error: str = "") -> bytes:
    """error: why the pod is not bound; "" only once the API server has said that it is."""
    return _encode(_Bound(error))
