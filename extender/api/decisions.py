"""Serves decisions on pods, and decides on a pod that a person pasted."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from extender.api.delays import NodeNameGroups
from extender.api.live import LiveState
from extender.api.requests import PAGED, SEARCHED, ListPage, ListQuery, RequestError, Route, iso, one_of, read_body
from extender.api.what_if import ALLOWED, DEFAULT_NAMESPACE, FilterNodes, decide_on_pod, read_pod, remedies
from extender.body_limits import RequestRefused
from extender.journal import MAX_PODS, JournalEntry
from leadsman.decision.decide import filter_nodes
from leadsman.decision.devices.device_filter import needs_reservation
from leadsman.decision.explain import Explanation, explain
from leadsman.published.self_healing import PodBackup


class NodeScore(Struct, frozen=True):
    """A node's score for a pod, 0 to 10."""

    node: str
    score: int


class DecisionRow(Struct, frozen=True):
    """One decision on a pod, as a row of the list of decisions.

    kind: "filter" (nodes were refused or passed) or "prioritize" (and scored).
    asked, passed: nodes.
    best: the first few nodes by score.
    neutral: why all scores are alike; "" when they are not.
    """

    at: str
    replica: str
    pod: str
    pod_uid: str
    kind: str
    asked: int
    passed: int
    refused_by_reason: Mapping[str, int]
    best: Sequence[NodeScore]
    neutral: str


class DecisionDetail(Struct, frozen=True):
    """A decision with its explanation: why each node was refused or scored as it was, and what would help.

    seconds_ago: since it was made; replicas' clocks may differ.
    explanation: its nodes are a page of all, the best first; with `search` of those whose name or reason has the text.
    next: the cursor of the next page; null: this is the last. total: nodes of all pages.
    fixes: what would let the pod pass.
    node_groups: layer, as "5 ms" → groups of the nodes that passed. backup: of the pod; null: nothing is known of it.
    Both are as they are now, not when it was decided.
    """

    decision: DecisionRow
    seconds_ago: float
    explanation: Explanation
    next: str | None
    total: int
    fixes: Sequence[str]
    node_groups: Mapping[str, NodeNameGroups] = {}
    backup: PodBackup | None = None


class WhatIfRequest(Struct, frozen=True):
    """Asks what would be decided on a pod, given as YAML: a pod, or a workload with a pod template.

    namespace: of a document that names none.
    """

    yaml: str
    namespace: str = DEFAULT_NAMESPACE


FILTER, PRIORITIZE = "filter", "prioritize"
BEST_SHOWN = 3
MAX_NODES = 10_000
"""Nodes of a decision on one page, so that a decision fits on one: the next page may come after the next attempt, and
each page of a pasted pod is decided again."""
SORTS = ("newest", WAITING := "waiting")
"""The newest first; those that wait before others, and then the newest."""

WallTime = Callable[[float], float]
"""Turns monotonic seconds into Unix seconds."""


def decision_row(entry: JournalEntry, replica: str, wall_time: WallTime) -> DecisionRow:
    decision = entry.decision
    refused = Counter(refusal.reason for refusal in decision.refused.values())
    best = nlargest(BEST_SHOWN, decision.scores.items(), key=lambda each: each[1])
    return DecisionRow(
        at=iso(wall_time(entry.decided_at)),
        replica=replica,
        pod=f"{entry.pod.namespace}/{entry.pod.name}",
        pod_uid=entry.pod.uid,
        kind=PRIORITIZE if entry.score_result else FILTER,
        asked=len(decision.kept) + len(decision.refused),
        passed=len(decision.kept),
        refused_by_reason=dict(refused.most_common()),
        best=[NodeScore(*each) for each in best],
        neutral=decision.neutral if entry.score_result else "",
    )


def select_decisions(rows: Sequence[DecisionRow], search: str) -> list[DecisionRow]:
    """Returns the rows whose pod, best nodes or reasons contain the text; "" matches all."""

    def searched(row: DecisionRow) -> str:
        return "\n".join([row.pod, *(each.node for each in row.best), *row.refused_by_reason]).lower()

    return [row for row in rows if search.lower() in searched(row)]


def decision_detail(
    entry: JournalEntry,
    row: DecisionRow,
    now: float,
    search: str = "",
    query: ListQuery | None = None,
    filter_nodes: FilterNodes = filter_nodes,
) -> DecisionDetail:
    """Explains one decision; takes some 10 ms at 5,000 nodes. now: monotonic seconds. search: only nodes whose name or
    reason contains it; "" for all.

    query: None: all of them, on one page. filter_nodes: what a remedy is tried with.
    """
    inputs = entry.score_inputs or entry.filter_inputs
    assert inputs
    explanation, text = explain(entry.decision, inputs, entry.filter_inputs), search.lower()
    found = [node for node in explanation.nodes if text in f"{node.node}\n{node.reason}".lower()]
    page = query.page(found) if query else ListPage(found, None, len(found))
    return DecisionDetail(
        row,
        now - entry.decided_at,
        replace(explanation, nodes=tuple(page.items)),
        page.next,
        page.total,
        [] if entry.decision.kept else remedies(entry.pod, entry.nodes, entry.filter_inputs or inputs, filter_nodes),
    )


def _row(live: LiveState, entry: JournalEntry) -> DecisionRow:
    return decision_row(entry, live.sources.replica, live.sources.wall_time)


async def _detail(live: LiveState, request: web.Request, entry: JournalEntry) -> DecisionDetail:
    """Answers with the decision, the pod's backup and the groups of its nodes as they are now."""
    page, search, sources = ListQuery(request.query, MAX_NODES), request.query.get("search", ""), live.sources
    groups, backups = sources.inputs.delays.estimator.groups, sources.inputs.backups
    backup = backups.of_pod(entry.pod.uid) if backups else None

    def make() -> DecisionDetail:
        now, filter_nodes = sources.inputs.clock(), sources.core.filter_nodes
        detail = decision_detail(entry, _row(live, entry), now, search, page, filter_nodes)
        return replace(detail, node_groups=groups.among(entry.decision.kept) if groups else {}, backup=backup)

    return await live.on_worker(make)


async def decisions(live: LiveState, request: web.Request) -> ListPage[DecisionRow]:
    page, search, sort = ListQuery(request.query), request.query.get("search", ""), one_of(request.query, "sort", SORTS)
    entries, now = live.sources.journal.newest(MAX_PODS), live.sources.inputs.clock()
    if sort == WAITING:
        entries = sorted(entries, key=lambda entry: not (entry.waits(now) and live.is_unplaced(entry.pod)))
    return await live.on_worker(lambda: page.page(select_decisions([_row(live, each) for each in entries], search)))


async def pod(live: LiveState, request: web.Request) -> DecisionDetail:
    namespace, name = request.match_info["namespace"], request.match_info["name"]
    entry = live.sources.journal.get(namespace, name)
    if entry is None:
        why = (
            f"no decision on {namespace}/{name} is kept here: it may be misspelt, not asked about yet, placed long ago"
            " or decided by another replica; `leadsman explain --extender kubectl` asks them all"
        )
        raise RequestError(404, why, "name", f"{namespace}/{name}", "what GET /decisions lists")
    return await _detail(live, request, entry)


async def what_if(live: LiveState, request: web.Request) -> DecisionDetail:
    asked = await read_body(request, WhatIfRequest)
    inputs, core = live.sources.inputs.current_inputs(), live.sources.core
    try:
        pasted = await live.on_worker(lambda: read_pod(asked.yaml, asked.namespace))
    except RequestRefused as error:
        raise RequestError(error.status, str(error), "yaml", "", ALLOWED) from error
    if live.sources.reservations and needs_reservation(pasted, inputs):
        inputs = await live.sources.reservations.read(inputs)
    entry = await live.on_worker(
        lambda: decide_on_pod(pasted, inputs.node_roles or inputs.snapshot.nodes, inputs, core)
    )
    return await _detail(live, request, entry)


ROUTES = (
    Route("/decisions", decisions, ListPage[DecisionRow], "The decisions that are kept.", ("search", "sort", *PAGED)),
    Route("/pods/{namespace}/{name}", pod, DecisionDetail, "The newest decision on a pod.", SEARCHED),
    Route(
        "/what-if",
        what_if,
        DecisionDetail,
        "What would be decided on a pasted pod. Nothing is kept.",
        SEARCHED,
        takes=WhatIfRequest,
    ),
)
