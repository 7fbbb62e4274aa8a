"""Says why a pod with a delay bound waits: which bound refuses it, how far the nearest node is, what would help.

The nodes are judged by the extender's own evaluation, so what is said here is what kube-scheduler was answered.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from leadsman.decision.delay.bounds import BadBound, NoTarget, parse_bounds
from leadsman.decision.delay.evaluation import EvaluatedBound, evaluate_bounds
from leadsman.decision.delay.explain_delay import delay_evidence
from leadsman.decision.delay.rtt_table import Outcome
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import DelayEvidence, PodInfo
from leadsman.planning.situation import deciding_ms, excess_ms, hardest
from leadsman.runtime.text_table import format_number


class WaitReason(Struct, frozen=True):
    """Why a pod waits.

    subject: what stays the same when delays are measured again: the bound and the nearest node.
    text: a sentence with the values, and what would help.
    """

    subject: str
    text: str


def wait_reason(pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> WaitReason:
    """Says why no node of `nodes` takes the pod, which has a delay bound."""
    try:
        bounds = parse_bounds(pod)
    except BadBound as error:
        return WaitReason("bad bound", f"{error}; correct it on the workload's pod template")
    if not nodes:
        return WaitReason("no nodes", "no node is known; see leadsman state")
    resolved = evaluate_bounds(bounds, pod, nodes, inputs)
    for each in resolved:
        if isinstance(each, NoTarget):
            return WaitReason(each.reason, f"{each.reason}; start it, or correct the name in the bound")
    evaluated = [each for each in resolved if isinstance(each, EvaluatedBound)]
    by_node = delay_evidence(pod, nodes, inputs).distances
    passing = [node for node in nodes if all(_passes(each, node) for each in evaluated)]
    if passing:
        return _refused_otherwise(passing, len(nodes), by_node)
    return _all_too_far(by_node)


def _passes(bound: EvaluatedBound, node: str) -> bool:
    evaluation = bound.evaluation
    return not Outcome(int(evaluation.outcome[evaluation.index.position(node)])).refuses


def _refused_otherwise(
    passing: Sequence[str], nodes: int, by_node: Mapping[str, tuple[DelayEvidence, ...]]
) -> WaitReason:
    nearest = min(passing, key=lambda node: (_excess_ms(by_node[node]), node))
    return WaitReason(
        f"within: {nearest}",
        f"{len(passing)} of {nodes} nodes are within its delay bounds, {nearest} is the nearest; something else refuses"
        " them: read the pod's FailedScheduling Event and `leadsman explain`",
    )


def _excess_ms(evidence: Sequence[DelayEvidence]) -> float:
    decides = hardest(evidence)
    return (excess_ms(decides) or 0.0) if decides else 0.0


def _all_too_far(by_node: Mapping[str, tuple[DelayEvidence, ...]]) -> WaitReason:
    decides = {node: each for node, evidence in by_node.items() if (each := hardest(evidence)) is not None}
    known = [node for node, each in decides.items() if excess_ms(each) is not None]
    if not known:
        one = next(iter(decides.values()))
        return WaitReason(
            f"unknown: {one.to}",
            f"no node's delay to {one.to} is known, and its bound of {one.bound_ms:g} ms must be checked; agents"
            " measure it on request within seconds: if this stays, look whether they run on these nodes"
            " (leadsman nodes)",
        )
    nearest = min(known, key=lambda node: (_excess_ms(by_node[node]), node))
    return WaitReason(f"{decides[nearest].to}: {nearest}", _nearest_text(nearest, decides[nearest]))


def _nearest_text(node: str, evidence: DelayEvidence) -> str:
    deciding = deciding_ms(evidence)
    assert deciding is not None, "the nearest is chosen among the known"
    by = format_number(deciding - evidence.bound_ms)
    far = f"no node is within {evidence.bound_ms:g} ms of {evidence.to}: the nearest, {node}, is"
    if evidence.estimated:
        return (
            f"{far} up to {format_number(deciding)} ms away by estimate, {by} ms too far; it is measured on request; if"
            f" that is too far too, raise the bound or run {evidence.to} nearer"
        )
    return (
        f"{far} {format_number(deciding)} ms away, {by} ms too far; raise the bound to {format_number(deciding)} ms or"
        f" more, or run {evidence.to} nearer to a node with room"
    )
