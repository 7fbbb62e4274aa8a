"""Answers a decided request again, on the inputs that it was decided on."""

from collections.abc import Mapping

from msgspec import structs

from extender import responses
from leadsman.decision.decide import FilterResult, filter_nodes, score_nodes
from leadsman.decision.healing.protected_placeholders import PROTECTED, protected_placeholders
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy
from leadsman.sources.recording.decided_request import PREEMPT, PRIORITIZE, DecidedRequest

Answer = FilterResult | Mapping[str, int]


def inputs_under(request: DecidedRequest, policy: Policy | None) -> DecisionInputs:
    """The request's inputs with another policy; None: as they were."""
    return request.inputs if policy is None else structs.replace(request.inputs, policy=policy)


def answer_again(request: DecidedRequest, policy: Policy | None = None) -> Answer:
    """What the plugins say now. policy: instead of the recorded one.

    Raises what a plugin raises, and NotRecorded.
    """
    inputs = inputs_under(request, policy)
    if request.verb == PRIORITIZE:
        return score_nodes(request.pod, request.nodes, inputs).scores
    if request.verb == PREEMPT:
        protected = dict.fromkeys(protected_placeholders(request.pod, request.victims, inputs), PROTECTED)
        kept, refused = filter_nodes(request.pod, [node for node in request.nodes if node not in protected], inputs)
        return FilterResult(kept, {**protected, **refused})
    return filter_nodes(request.pod, request.nodes, inputs)


def response_bytes(answer: Answer) -> bytes:
    """The answer in the names form, byte for byte as kube-scheduler gets it.

    In the node form the same nodes are answered with their own bytes, which are not recorded; of preempt, the nodes.
    """
    if isinstance(answer, FilterResult):
        reasons = {node: refusal.reason for node, refusal in answer.refused.items()}
        return responses.filter_result(answer.kept, reasons)
    return responses.host_priorities(answer)
