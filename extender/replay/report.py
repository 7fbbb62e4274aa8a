"""The report of a replayed recording: which answers change, why, and how many."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from extender.replay.judge import Judge, Judgement, Result
from extender.replay.times import rfc3339
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


def replay(recorded: Iterable[RecordedRequest], policy: Policy | None = None) -> Report:
    """Judges all requests. policy: None: each by the one that it was decided by."""
    judge, results = Judge(policy), Counter[tuple[Result, str]]()
    changes, failures = list[Change](), Counter[str]()
    versions, policies, times = dict[str, None](), dict[str, Policy](), list[float]()
    for request, at, version in recorded:
        judgement = judge.judge(request)
        results[judgement.result, judgement.verb] += 1
        if judgement.result in CHANGED and len(changes) < MAX_LISTED:
            changes.append(Change(rfc3339(at), judgement))
        if judgement.result is Result.FAILED:
            failures[judgement.why] += 1
        versions[version] = None
        policies[digest(request.inputs.policy)] = request.inputs.policy
        times = [*times[:1], at]
    return Report(
        results.total(),
        rfc3339(times[0]) if times else "",
        rfc3339(times[-1]) if times else "",
        list(versions),
        list(policies),
        digest(policy) if policy else "",
        _by_result(results),
        changes,
        dict(failures.most_common(10)),
        list(_unknowns(policies.values(), policy)),
    )


def _by_result(results: Mapping[tuple[Result, str], int]) -> dict[str, dict[str, int]]:
    counted: dict[str, dict[str, int]] = {}
    for result in Result:
        by_verb = {verb: number for (each, verb), number in sorted(results.items()) if each is result}
        if by_verb:
            counted[result.value] = by_verb
    return counted


def _unknowns(recorded: Iterable[Policy], policy: Policy | None) -> Iterator[str]:
    if policy is None:
        return
    yield UNKNOWN
    if any(
        (each.delay.statistic, each.initial_layers) != (policy.delay.statistic, policy.initial_layers)
        for each in recorded
    ):
        yield (
            "estimated delays are those of the recording: under the other statistic or layers of this policy they"
            " would be fitted to other numbers"
        )


def format_report(report: Report) -> str:
    """For a terminal."""
    judged = f"judged by policy {report.policy}" if report.policy else "judged by the same policy"
    lines = [
        f"{report.requests:,} requests from {report.first_at or '-'} to {report.last_at or '-'}, decided by policy"
        f" {' and '.join(report.recorded_policies) or '-'}, {judged}",
        "",
        *align_columns([["RESULT", "VERB", "REQUESTS"], *_result_rows(report)]),
    ]
    if report.changes:
        lines += ["", *align_columns([["WHEN", "POD", "VERB", "CHANGE", "WHY"], *map(_change_row, report.changes)])]
    lines += (
        ["", *(f"failed {number} times: {why}" for why, number in report.failures.items())] if report.failures else []
    )
    lines += ["", *(f"note: {note}" for note in report.notes)] if report.notes else []
    return "\n".join(lines) + "\n"


def _result_rows(report: Report) -> list[list[str]]:
    return [
        [result.replace("_", " "), verb, f"{number:,}"]
        for result, by_verb in report.results.items()
        for verb, number in by_verb.items()
    ]


def _change_row(change: Change) -> list[str]:
    return [change.at, change.judgement.pod, change.judgement.verb, *describe(change.judgement)]


def describe(judgement: Judgement) -> tuple[str, str]:
    """What changes, and why, each a line however many nodes there are. Of a judgement that is in CHANGED."""
    before, after = judgement.first_before, judgement.first_after
    moved = f"{_names(before)} → {_names(after)}" if before != after else ""
    if judgement.result is Result.OTHER_NODE:
        return moved, judgement.why
    refused, accepted = judgement.filtered.refused, judgement.filtered.accepted
    parts = [f"refuses {_names(tuple(refused))}"] * bool(refused)
    parts += [f"accepts {_names(tuple(accepted))}"] * bool(accepted)
    parts += [moved] * bool(moved)
    reasons = dict.fromkeys([*refused.values(), *(f"was refused by {why}" for why in accepted.values())])
    return ", ".join(parts), "; ".join(list(reasons)[:3])


def _names(nodes: Sequence[str]) -> str:
    return ", ".join(nodes[:3]) + f" and {len(nodes) - 3} more" * (len(nodes) > 3) or "none"
