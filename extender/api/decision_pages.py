"""Decisions of the journal as rows and as details; all of it is the journal's own."""

from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import blake2b
from heapq import nlargest
from math import ceil

from msgspec.structs import replace

from extender.api.contract.common import ListPage, reason_counts
from extender.api.contract.decisions import DecisionDetail, DecisionRow, NodeScore
from extender.api.moments import iso
from extender.api.parameters import ListQuery
from extender.journal import JournalEntry
from leadsman.decision.explain import KEPT, Explanation, NodeExplanation, explain
from leadsman.decision.model import DelayEvidence
from leadsman.published.backups import PodBackup
from leadsman.sources.input_sources import NodeGroups

FILTER, PRIORITIZE = "filter", "prioritize"
BEST_SHOWN = 3

WallTime = Callable[[float], float]
"""Monotonic seconds → Unix seconds."""


def decision_id(entry: JournalEntry) -> str:
    """The same for an entry as long as it stays as it is."""
    pod = entry.pod
    text = f"{pod.namespace}/{pod.name}/{pod.uid}/{entry.decided_at!r}"
    return blake2b(text.encode(errors="replace"), digest_size=12).hexdigest()


def decision_row(entry: JournalEntry, replica: str, wall_time: WallTime) -> DecisionRow:
    decision = entry.decision
    refused = Counter(refusal.reason for refusal in decision.refused.values())
    best = nlargest(BEST_SHOWN, decision.scores.items(), key=lambda each: each[1])
    return DecisionRow(
        id=decision_id(entry),
        at=iso(wall_time(entry.decided_at)),
        replica=replica,
        pod=f"{entry.pod.namespace}/{entry.pod.name}",
        pod_uid=entry.pod.uid,
        kind=PRIORITIZE if entry.score_result else FILTER,
        asked=len(decision.kept) + len(decision.refused),
        passed=len(decision.kept),
        refused_by_reason=reason_counts(refused),
        best=[NodeScore(*each) for each in best],
        neutral=decision.neutral if entry.score_result else "",
    )


def select_decisions(rows: Sequence[DecisionRow], search: str, kind: str) -> list[DecisionRow]:
    """Rows whose pod, best nodes or reasons have the text; "" for all."""
    text = search.lower()
    return [row for row in rows if (not kind or row.kind == kind) and (not text or text in _searched(row))]


def _searched(row: DecisionRow) -> str:
    words = [row.pod, *(each.node for each in row.best), *(each.reason for each in row.refused_by_reason)]
    return "\n".join(words).lower()


def decision_detail(
    entry: JournalEntry,
    replica: str,
    wall_time: WallTime,
    now: float,
    search: str = "",
    query: ListQuery | None = None,
    groups: NodeGroups | None = None,
    backup: PodBackup | None = None,
) -> DecisionDetail:
    """Some 10 ms at 5,000 nodes. now: monotonic seconds. search: nodes whose name or reason has the text; "" for all.

    query: None: all of them, on one page.
    """
    inputs = entry.score_inputs or entry.filter_inputs
    assert inputs
    explanation, text = explain(entry.decision, inputs, entry.filter_inputs), search.lower()
    found = [node for node in explanation.nodes if text in f"{node.node}\n{node.reason}".lower()]
    page = query.page(found) if query else ListPage(found, None, len(found))
    return DecisionDetail(
        decision_row(entry, replica, wall_time),
        now - entry.decided_at,
        replace(explanation, nodes=tuple(page.items)),
        page.next,
        page.total,
        fixes(explanation),
        groups.among(entry.decision.kept) if groups else {},
        backup,
    )


def fixes(explanation: Explanation) -> list[str]:
    """What would give the pod a node; [] when it has one."""
    if any(node.verdict == KEPT for node in explanation.nodes):
        return []
    return [*_loosened_bounds(explanation.nodes), *_missing_measurements(explanation.nodes)]


def _loosened_bounds(nodes: Sequence[NodeExplanation]) -> list[str]:
    """For each bound, the node that misses it least and no other bound."""
    best: dict[tuple[str, float], tuple[float, str]] = {}
    for node in nodes:
        missed = [each for each in node.distances if _decisive_ms(each) is None or _over_ms(each) > 0]
        if len(missed) == 1 and (rtt_ms := _decisive_ms(missed[0])) is not None:
            bound = (missed[0].to, missed[0].bound_ms)
            best[bound] = min(best.get(bound, (rtt_ms, node.node)), (rtt_ms, node.node))
    return [
        f"{node} is nearest to {to}: {rtt_ms:.3g} ms, {rtt_ms - bound_ms:.3g} ms over the bound of {bound_ms:g} ms;"
        f" a bound of {ceil(rtt_ms)} ms lets it pass"
        for (to, bound_ms), (rtt_ms, node) in sorted(best.items(), key=lambda each: each[1])
    ]


def _missing_measurements(nodes: Sequence[NodeExplanation]) -> list[str]:
    missing = Counter(each.to for node in nodes for each in node.distances if _decisive_ms(each) is None)
    return [
        f"{count} nodes have no delay to {to}: agents are asked to measure some of these pairs, and the next attempt"
        f" uses it; see that an agent runs on {to}"
        for to, count in missing.most_common()
    ]


def _decisive_ms(evidence: DelayEvidence) -> float | None:
    """What is compared with the bound: of an estimate its upper end."""
    return evidence.high_ms if evidence.estimated else evidence.rtt_ms


def _over_ms(evidence: DelayEvidence) -> float:
    return (_decisive_ms(evidence) or 0.0) - evidence.bound_ms
