"""Explains a recorded decision: as it was made then, or as it would be under another policy."""

from collections.abc import Iterable

import msgspec

from extender.journal import Journal
from extender.replay.judge import answer_again, inputs_under
from extender.replay.report import rfc3339
from leadsman.decision import explain
from leadsman.decision.decide import FilterResult, ScoreResult, score_nodes
from leadsman.decision.policy import Policy
from leadsman.sources.recording.messages import PREEMPT, DecidedRequest
from leadsman.sources.recording.reader import RecordedRequest


def explain_pod(recorded: Iterable[RecordedRequest], pod: str, policy: Policy | None, as_json: bool) -> str:
    """Explains the last decision on the pod, namespace/name. Raises ValueError when there is none.

    policy: instead of the one that it was decided by.
    """
    journal, pods, decided_at = Journal(), dict[str, None](), ""
    namespace, _, name = pod.partition("/")
    for request, at, *_ in recorded:
        each = request.pod
        pods[f"{each.namespace}/{each.name}"] = None
        if (each.namespace, each.name) == (namespace, name):
            _record(journal, request, policy)
            decided_at = rfc3339(at)
    entry = journal.get(namespace, name)
    if entry is None:
        newest = ", ".join(list(pods)[-5:])
        raise ValueError(f"pod {pod} is not in the recording; the newest of its {len(pods)} pods: {newest or 'none'}")
    inputs = entry.score_inputs or entry.filter_inputs
    assert inputs
    explanation = explain.explain(entry.decision, inputs, entry.filter_inputs)
    if as_json:
        return msgspec.json.format(msgspec.json.encode(explanation), indent=2).decode() + "\n"
    text = explain.format_explanation(explanation)
    return f"decided at {decided_at}, policy {explanation.policy}{' instead of its own' * bool(policy)}\n{text}"


def _record(journal: Journal, request: DecidedRequest, policy: Policy | None) -> None:
    """Records the request in the journal as the extender does. The answers are the recorded ones, unless another policy
    is to give them."""
    inputs, pod = inputs_under(request, policy), request.pod
    entry = journal.get(pod.namespace, pod.name)
    if isinstance(request.answer, FilterResult):
        if request.verb == PREEMPT and entry and entry.filter_result:
            return
        answer = answer_again(request, policy) if policy else request.answer
        assert isinstance(answer, FilterResult)
        journal.record_filter(pod, tuple(request.nodes), answer, inputs)
        return
    kept = entry.filter_result.kept if policy and entry and entry.filter_result else request.nodes
    again = score_nodes(pod, kept, inputs)
    if not policy:
        again = ScoreResult(again.plugin_scores, request.answer, request.fault or again.neutral)
    journal.record_prioritize(pod, tuple(kept), again, inputs)
