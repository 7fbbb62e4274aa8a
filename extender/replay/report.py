"""The report of a replayed recording: which answers change, why, and how many."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from extender.replay.judge import Judge, Judgement, Result
from leadsman.decision.policy import Policy, digest
from leadsman.runtime.text_table import align_columns
from leadsman.sources.recording.reader import RecordedRequest

CHANGED = frozenset({Result.NEWLY_REFUSED, Result.NEWLY_ACCEPTED, Result.OTHER_NODE})
"""What is listed one by one; Result.DETAILS is only counted."""

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
    """In UTC, with milliseconds: `2026-05-01T12:00:00.250Z`."""
    return datetime.fromtimestamp(unix_seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Change(Struct, frozen=True):
    """An answer that changes: when it was given, and what becomes of it."""

    at: str
    judgement: Judgement


class Report(Struct, frozen=True):
    """What becomes of a recording's requests.

    requests: all of them. first_at, last_at: RFC 3339; "" without requests.
    recorded_by: versions of Leadsman. recorded_policies: digests of the policies that decided them.
    policy: the digest of the one that they are judged by; "": their own.
    results: result → verb → how many.
    changes: in their order, at most MAX_LISTED. failures: what could not be judged → how many.
    notes: what cannot be told, and what of the recording could not be read.
    """

    requests: int
    first_at: str
    last_at: str
    recorded_by: Sequence[str]
    recorded_policies: Sequence[str]
    policy: str
    results: Mapping[str, Mapping[str, int]]
    changes: Sequence[Change]
    failures: Mapping[str, int]
    notes: Sequence[str]

    @property
    def has_changes(self) -> bool:
        return any(self.results.get(result) for result in (*CHANGED, Result.DETAILS, Result.FAILED))


class Replay:
    """Judges recorded requests, one after another. policy: None: each by the one that it was decided by.

    requests, changed: how many so far.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self.requests = self.changed = 0
        self._judge, self._results = Judge(policy), Counter[tuple[Result, str]]()
        self._changes, self._failures = list[Change](), Counter[str]()
        self._versions, self._policies = dict[str, None](), dict[str, Policy]()
        self._first_at, self._last_at = "", ""

    def add(self, recorded: RecordedRequest) -> None:
        request, at, version, is_whole = recorded
        judgement = self._judge.judge(request, is_whole)
        self.requests += 1
        self._results[judgement.result, judgement.verb] += 1
        if judgement.result in CHANGED:
            self.changed += 1
            if len(self._changes) < MAX_LISTED:
                self._changes.append(Change(rfc3339(at), judgement))
        if judgement.result is Result.FAILED:
            self._failures[judgement.why] += 1
        self._versions[version] = None
        self._policies[digest(request.inputs.policy)] = request.inputs.policy
        self._last_at = rfc3339(at)
        self._first_at = self._first_at or self._last_at

    def report(self, notes: Sequence[str] = ()) -> Report:
        """Of all requests so far. notes: more of them."""
        policy = self._judge.policy
        return Report(
            self.requests,
            self._first_at,
            self._last_at,
            list(self._versions),
            list(self._policies),
            digest(policy) if policy else "",
            self._by_result(),
            self._changes,
            dict(self._failures.most_common(10)),
            [*self._unknowns(), *notes],
        )

    def _by_result(self) -> dict[str, dict[str, int]]:
        counted: dict[str, dict[str, int]] = {}
        for result in Result:
            by_verb = {verb: number for (each, verb), number in sorted(self._results.items()) if each is result}
            if by_verb:
                counted[result.value] = by_verb
        return counted

    def _unknowns(self) -> Iterator[str]:
        if (policy := self._judge.policy) is None:
            return
        yield UNKNOWN
        fitted = {(each.delay.statistic, each.initial_layers) for each in self._policies.values()}
        if fitted - {(policy.delay.statistic, policy.initial_layers)}:
            yield OTHER_ESTIMATES


def format_report(report: Report) -> str:
    """For a terminal."""
    judged = f"judged by policy {report.policy}" if report.policy else "judged by the same policy"
    results = [
        [result.replace("_", " "), verb, f"{number:,}"]
        for result, by_verb in report.results.items()
        for verb, number in by_verb.items()
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
