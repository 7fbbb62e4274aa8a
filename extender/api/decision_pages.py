"""Decisions of the journal as rows and as details; all of it is the journal's own."""

from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import blake2b
from heapq import nlargest

from msgspec.structs import replace

from extender.api.contract.common import ListPage, reason_counts
from extender.api.contract.decisions import DecisionDetail, DecisionRow, NodeScore
from extender.api.moments import iso
from extender.api.parameters import ListQuery
from extender.api.remedies import FilterNodes, remedies
from extender.journal import JournalEntry
from leadsman.decision.decide import filter_nodes
from leadsman.decision.explain import explain
from leadsman.published.backups import PodBackup
from leadsman.sources.delay.estimator import DelayGroups

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
    groups: DelayGroups | None = None,
    backup: PodBackup | None = None,
    filter_nodes: FilterNodes = filter_nodes,
) -> DecisionDetail:
    """Some 10 ms at 5,000 nodes. now: monotonic seconds. search: nodes whose name or reason has the text; "" for all.

    query: None: all of them, on one page. filter_nodes: what a remedy is tried with.
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
        [] if entry.decision.kept else remedies(entry.pod, entry.nodes, entry.filter_inputs or inputs, filter_nodes),
        groups.among(entry.decision.kept) if groups else {},
        backup,
    )
