"""Reports on a replayed recording: which answers change, why, and how many."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from extender.journal import Journal
from extender.replay.judge import Judge, Judgement, Result, answer_again, inputs_under
from leadsman.decision import explain
from leadsman.decision.decide import FilterResult, ScoreResult, score_nodes
from leadsman.decision.policy import Policy, digest
from leadsman.decision.self_healing import PROTECTED
from leadsman.runtime.text_table import align_columns
from leadsman.sources.recording.messages import PREEMPT, DecidedRequest
from leadsman.sources.recording.reader import RecordedRequest

CHANGED = frozenset({Result.NEWLY_REFUSED, Result.NEWLY_ACCEPTED, Result.OTHER_NODE})
"""Says what is listed one by one; Result.DETAILS is only counted."""

MAX_LISTED = 10_000
"""Changes that are kept; the others are counted."""

UNKNOWN = (
    "kube-scheduler adds scores of its own to these, which no extender sees: whether a pod lands elsewhere, and where"
    " among nodes with the same score, is unknown"
)
OTHER_ESTIMATES = (
    "estimated delays are those of the recording: under the other statistic or layers of this policy they would be"
    " fitted to other numbers"
)


def rfc3339(unix_seconds: float) -> str:
    """Formats a moment in UTC with milliseconds: `2026-05-01T12:00:00.250Z`."""
    return datetime.fromtimestamp(unix_seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Change(Struct, frozen=True):
    """An answer that changes: when it was given, and what becomes of it."""

    at: str
    judgement: Judgement


class Report(Struct):
    """Counts what becomes of a recording's requests.

    policy: the digest of the one that they are judged by; "": their own.
    requests: all of them. changed: those whose nodes are others now.
    first_at, last_at: RFC 3339; "" without requests.
    recorded_policies: digests of the policies that decided them.
    results: result → verb → how many.
    changes: in their order, at most MAX_LISTED. failures: what could not be judged → how many, of ten kinds.
    notes: what cannot be told, and what of the recording could not be read.
    """

    policy: str
    requests: int = 0
    changed: int = 0
    first_at: str = ""
    last_at: str = ""
    recorded_policies: list[str] = []
    results: dict[Result, dict[str, int]] = {}
    changes: list[Change] = []
    failures: dict[str, int] = {}
    notes: list[str] = []

    @property
    def has_changes(self) -> bool:
        return any(result in self.results for result in (*CHANGED, Result.DETAILS, Result.FAILED))


class Replay:
    """Judges recorded requests one after another. report: on those judged so far. policy: None: each is judged by the
    one that it was decided by.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self.report = Report(digest(policy) if policy else "", notes=[UNKNOWN] if policy else [])
        self._judge = Judge(policy)

    def add(self, recorded: RecordedRequest) -> None:
        request, at, is_whole = recorded
        judgement, report = self._judge.judge(request, is_whole), self.report
        report.requests += 1
        by_verb = report.results.setdefault(judgement.result, {})
        by_verb[judgement.verb] = by_verb.get(judgement.verb, 0) + 1
        if judgement.result in CHANGED:
            report.changed += 1
            if len(report.changes) < MAX_LISTED:
                report.changes.append(Change(rfc3339(at), judgement))
        if judgement.result is Result.FAILED and (judgement.why in report.failures or len(report.failures) < 10):
            report.failures[judgement.why] = report.failures.get(judgement.why, 0) + 1
        report.last_at = rfc3339(at)
        report.first_at = report.first_at or report.last_at
        self._note_policy(request.inputs.policy)

    def _note_policy(self, recorded: Policy) -> None:
        report, policy = self.report, self._judge.policy
        if (name := digest(recorded)) in report.recorded_policies:
            return
        report.recorded_policies.append(name)
        fitted = [(each.delay.statistic, each.initial_layers) for each in (recorded, policy or recorded)]
        if fitted[0] != fitted[1] and OTHER_ESTIMATES not in report.notes:
            report.notes.append(OTHER_ESTIMATES)


def format_report(report: Report) -> str:
    """Writes the report for a terminal."""
    judged = f"judged by policy {report.policy}" if report.policy else "judged by the same policy"
    results = [
        [result.replace("_", " "), verb, f"{number:,}"]
        for result in Result
        for verb, number in sorted(report.results.get(result, {}).items())
    ]
    lines = [
        f"{report.requests:,} requests from {report.first_at or '-'} to {report.last_at or '-'}, decided by policy"
        f" {' and '.join(report.recorded_policies) or '-'}, {judged}",
        "",
        *align_columns([["RESULT", "VERB", "REQUESTS"], *results]),
    ]
    if report.changes:
        rows = [
            [each.at, each.judgement.pod, each.judgement.verb, *_described(each.judgement)] for each in report.changes
        ]
        lines += ["", *align_columns([["WHEN", "POD", "VERB", "CHANGE", "WHY"], *rows])]
    if report.failures:
        lines += ["", *(f"failed {number} times: {why}" for why, number in report.failures.items())]
    if report.notes:
        lines += ["", *(f"note: {note}" for note in report.notes)]
    return "\n".join(lines) + "\n"


def _described(judgement: Judgement) -> tuple[str, str]:
    """Returns what changes, and why, each a line however many nodes there are. Of a judgement that is in CHANGED."""
    before, after = judgement.first_before, judgement.first_after
    moved = f"{_names(before)} → {_names(after)}" if before != after else ""
    if judgement.result is Result.OTHER_NODE:
        return moved, judgement.why
    refused, accepted = judgement.refused, judgement.accepted
    parts = [f"refuses {_names(tuple(refused))}"] * bool(refused)
    parts += [f"accepts {_names(tuple(accepted))}"] * bool(accepted)
    parts += [moved] * bool(moved)
    reasons = dict.fromkeys([*refused.values(), *(f"was refused by {why}" for why in accepted.values())])
    return ", ".join(parts), "; ".join(list(reasons)[:3])


def _names(nodes: Sequence[str]) -> str:
    return ", ".join(nodes[:3]) + f" and {len(nodes) - 3} more" * (len(nodes) > 3) or "none"


# Explains a recorded decision: as it was made then, or as it would be under another policy.


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
    attempt = journal.of_attempt(pod, inputs.now)
    filtered = attempt.filter_result if attempt else None
    if isinstance(request.answer, FilterResult):
        if request.verb == PREEMPT and filtered and PROTECTED not in request.answer.refused.values():
            return
        answer = answer_again(request, policy) if policy else request.answer
        assert isinstance(answer, FilterResult)
        journal.record_filter(pod, tuple(request.nodes), answer, inputs)
        return
    kept = filtered.kept if policy and filtered else request.nodes
    again = score_nodes(pod, kept, inputs)
    if not policy:
        again = ScoreResult(again.plugin_scores, request.answer, request.fault or again.neutral)
    journal.record_prioritize(pod, tuple(kept), again, inputs)
