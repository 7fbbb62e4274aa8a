"""The value of a rule for all nodes at once.

What depends on a node alone is kept by node: of what nodes report, it is computed again for those that reported since;
of their objects, when a label of some node changed. What depends on the pod is computed once a request.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from msgspec import Struct

from leadsman.decision.cel.functions import Values
from leadsman.decision.cel.program import Part, Program
from leadsman.decision.columns import FloatArray
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.node_index import NodeIndex
from leadsman.decision.rule_schema import NODE_FRESH, NODE_OBJECT, NODE_REPORT, POD, NodeObject
from leadsman.state.snapshot import NodeState

NAME = "rules"


class _Request(Struct, frozen=True):
    """index: has all of `nodes`."""

    pod: PodInfo
    nodes: Sequence[str]
    inputs: DecisionInputs
    index: NodeIndex


def rule_values(program: Program, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> FloatArray:
    """The rule's value for each of the nodes, in their order: of a bool 0 or 1. NaN: it is unknown."""
    others: list[tuple[object, Sequence[str]]] = [(nodes, nodes)] if isinstance(nodes, tuple) else []
    index = inputs.cache.index(inputs.snapshot, others)
    request = _Request(pod, nodes, inputs, index if others or index.covers(nodes) else index.extended(nodes))
    values = program.joined([_PARTS[part.scope](part, request) for part in program.parts])
    return np.broadcast_to(np.asarray(values, np.float64), len(nodes))


def _of_pod(part: Part, request: _Request) -> Values:
    return part.number(request.pod)


def _of_reports(part: Part, request: _Request) -> Values:
    """Unknown where the node's data are not fresh."""
    inputs, index = request.inputs, request.index

    def numbers(states: Iterable[NodeState]) -> Sequence[float]:
        return [part.number(state) for state in states]

    values = inputs.cache.node_array(NAME, part.text, numbers, math.nan, inputs.snapshot, index)
    return np.where(_fresh(request), _candidates(values, request), math.nan)


def _of_objects(part: Part, request: _Request) -> Values:
    inputs, index = request.inputs, request.index
    labels = inputs.node_labels

    def numbers() -> FloatArray:
        by_node = labels.by_node if labels else {}
        values = [part.number(NodeObject(node, by_node.get(node))) for node in index.nodes]
        return np.array([*values, math.nan])

    return _candidates(inputs.cache.per_object(labels or index, (NAME, part.text, index), numbers), request)


def _of_freshness(part: Part, request: _Request) -> Values:
    return np.where(_fresh(request), part.number(True), part.number(False))


def _fresh(request: _Request) -> np.ndarray:
    inputs = request.inputs
    return _candidates(inputs.cache.fresh_until(inputs.snapshot, request.index), request) > inputs.now


def _candidates(values: FloatArray, request: _Request) -> FloatArray:
    taken: FloatArray = values[request.inputs.cache.positions(request.nodes, request.index)]
    return taken


_PARTS: dict[str, Callable[[Part, _Request], Values]] = {
    POD: _of_pod,
    NODE_REPORT: _of_reports,
    NODE_OBJECT: _of_objects,
    NODE_FRESH: _of_freshness,
}
