"""What an expression may read of a node and of a pod. docs/rules.md has the same table."""

from collections.abc import Mapping

from msgspec import Struct

from leadsman.decision.cel.checker import Field, Schema
from leadsman.decision.cel.functions import Kind, Unknown
from leadsman.decision.cel.program import Program, compile_expression
from leadsman.decision.model import PodInfo
from leadsman.state.snapshot import NodeState

NODE_REPORT = "what the node reports"
NODE_OBJECT = "the node's object"
NODE_FRESH = "the node's freshness"
POD = "the pod"


class NodeObject(Struct, frozen=True, gc=False):
    """A node as the API server has it. labels: None: they are not followed, or the node is not listed."""

    name: str
    labels: Mapping[str, str] | None


def _hardware(state: NodeState) -> Mapping[str, float]:
    if state.hardware is None:
        raise Unknown("the node reports no hardware metrics")
    return state.hardware.values


def _zone(state: NodeState) -> str:
    return _identity_text(state.identity.zone if state.identity else "")


def _rack(state: NodeState) -> str:
    return _identity_text(state.identity.rack if state.identity else "")


def _identity_text(text: str) -> str:
    if not text:
        raise Unknown("the agent was not told")
    return text


def _node_labels(node: NodeObject) -> Mapping[str, str]:
    if node.labels is None:
        raise Unknown("the node's labels are not known")
    return node.labels


def _pod_labels(pod: PodInfo) -> Mapping[str, str]:
    if getattr(pod.labels, "cut", 0):
        raise Unknown("the pod has too many labels")
    return pod.labels


def _requests(pod: PodInfo) -> Mapping[str, int]:
    if pod.requests is None:
        raise Unknown("the pod's requests are not known")
    return pod.requests


_NODE: Mapping[str, Field] = {
    "name": Field(Kind.STRING, NODE_OBJECT, lambda node: node.name),
    "labels": Field(Kind.STRING, NODE_OBJECT, _node_labels, is_map=True),
    "zone": Field(Kind.STRING, NODE_REPORT, _zone),
    "rack": Field(Kind.STRING, NODE_REPORT, _rack),
    "hardware": Field(Kind.DOUBLE, NODE_REPORT, _hardware, is_map=True),
    "fresh": Field(Kind.BOOL, NODE_FRESH, bool),
}
_POD: Mapping[str, Field] = {
    "name": Field(Kind.STRING, POD, lambda pod: pod.name),
    "namespace": Field(Kind.STRING, POD, lambda pod: pod.namespace),
    "priority": Field(Kind.INT, POD, lambda pod: pod.priority),
    "labels": Field(Kind.STRING, POD, _pod_labels, is_map=True),
    "requests": Field(Kind.QUANTITY, POD, _requests, is_map=True),
}
SCHEMA: Schema = {"node": _NODE, "pod": _POD}


def compile_rule(text: str) -> Program:
    """The program of a rule's expression. BadExpression."""
    return compile_expression(text, SCHEMA)
