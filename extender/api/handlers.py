"""A handler for each path of the API. Each reads parameters, and has its body made on a worker thread."""

from collections.abc import Callable
from typing import TypeVar

import msgspec
from aiohttp import web
from msgspec import Struct

from extender.api import cluster_pages, decision_pages, delay_pages, health_checks, node_rows, pair_pages, parameters
from extender.api.cluster_view import ClusterView
from extender.api.contract.cluster import RunningPolicy
from extender.api.contract.common import ListPage
from extender.api.contract.decisions import (
    DecisionDetail,
    DecisionRow,
    MeasureRequest,
    MeasureResponse,
    WhatIfRequest,
)
from extender.api.contract.delays import NodeLayers
from extender.api.contract.nodes import NodeRow
from extender.api.live import LiveState
from extender.api.overview_page import overview
from extender.api.parameters import ListQuery, RequestError, existing
from extender.api.what_if import ALLOWED, MAX_YAML_BYTES, decide_what_if
from extender.body_limits import RequestRefused
from extender.journal import MAX_PODS, JournalEntry
from extender.worker_pool import DeadlineExceeded
from leadsman.decision.policy import digest
from leadsman.runtime.redaction import hide_credentials
from leadsman.state.snapshot import NodeState

T = TypeVar("T")

PAGE_TIMEOUT_SECONDS = 5.0
MAX_BODY_BYTES = 2 * MAX_YAML_BYTES
"""JSON doubles each line's end and quote."""

TURN = "/api/v1"
"""Of the worker pool: one job of the API runs at a time, so that decisions keep the other threads."""


class ApiHandlers:
    """Each returns the response's struct."""

    def __init__(self, live: LiveState) -> None:
        self._live, self._sources = live, live.sources

    async def overview(self, _: web.Request) -> Struct:
        view, history = await self._live.view(), self._live.history
        decisions, waiting = self._live.decisions.rates(), self._live.decisions.waiting()
        return await self._on_worker(
            lambda: overview(self._sources, view, decisions, waiting, history.shifts, history.since)
        )

    async def nodes(self, request: web.Request) -> Struct:
        query, page = request.query, ListQuery(request.query)
        sort = parameters.one_of(query, "sort", node_rows.SORTS, "name")
        status = parameters.one_of(query, "status", node_rows.STATUS.values())
        search, group = query.get("search", ""), query.get("group", "")
        view = await self._live.view()
        return await self._on_worker(
            lambda: page.page(node_rows.select_nodes(self._node_rows(view), search, group, status, sort))
        )

    async def node(self, request: web.Request) -> Struct:
        name = request.match_info["name"]
        view = await self._live.view()
        state: NodeState = existing(name, "name", view.snapshot.nodes, "node")

        def detail() -> Struct:
            row = self._node_rows(view)[view.table.index[name]]
            implausible = self._sources.inputs.delays.implausible.get(name, ())
            return node_rows.node_detail(row, state, implausible, self._live.history.of_node(name))

        return await self._on_worker(detail)

    async def state(self, _: web.Request) -> Struct:
        inputs = self._sources.inputs
        return await self._on_worker(lambda: node_rows.reported_state(inputs.state.current, inputs.clock()))

    def _node_rows(self, view: ClusterView) -> list[NodeRow]:
        pods = node_rows.bounded_pods_by_node(self._sources.journal.newest(MAX_PODS), view.snapshot.nodes)
        contradicted = self._sources.inputs.delays.contradicted
        history = self._live.history
        return node_rows.node_rows(view, history.shifts, history.steady, pods, contradicted)

    async def delay_groups(self, _: web.Request) -> Struct:
        view, shifts = await self._live.view(), self._live.history.shifts
        return await self._on_worker(lambda: delay_pages.group_delays(view, shifts))

    async def delay_cells(self, request: web.Request) -> Struct:
        view = await self._live.view()
        rows, columns = (_tile(request, each, len(view.table.names)) for each in ("row", "column"))
        return await self._on_worker(lambda: delay_pages.delay_cells(view, rows, columns))

    async def delay_layers(self, _: web.Request) -> Struct:
        groups = self._sources.inputs.delays.groups
        return NodeLayers(groups.named() if groups else {})

    async def lost_links(self, request: web.Request) -> Struct:
        page, search = ListQuery(request.query), request.query.get("search", "")
        sort = parameters.one_of(request.query, "sort", pair_pages.LINK_SORTS, "worst")
        view = await self._live.view()
        return page.page(pair_pages.lost_links(view.dead_links, search, sort))

    async def delay_pair(self, request: web.Request) -> Struct:
        a, b = request.match_info["a"], request.match_info["b"]
        view, inputs = await self._live.view(), self._sources.inputs.current_inputs()
        for field, name in (("a", a), ("b", b)):
            existing(name, field, view.snapshot.nodes, "node")
        own, grafana_url = self._live.history, self._sources.grafana_url
        return await self._on_worker(lambda: pair_pages.pair_delays(view, a, b, inputs, own, grafana_url))

    async def delays_within(self, request: web.Request) -> Struct:
        bound_ms, node = parameters.positive_ms(request.query, "bound_ms"), request.query.get("node", "")
        view, inputs = await self._live.view(), self._sources.inputs.current_inputs()
        existing(node, "node", view.snapshot.nodes, "node")
        return await self._on_worker(lambda: pair_pages.nodes_within(view, node, bound_ms, inputs))

    async def delay_changes(self, request: web.Request) -> Struct:
        self._live.keep_history()
        page, own = ListQuery(request.query), self._live.history
        before, after = sorted(parameters.moment(request.query, field) for field in ("from", "to"))
        view = await self._live.view()
        return await self._on_worker(lambda: delay_pages.delay_changes(view, own, before, after, page))

    async def decisions(self, request: web.Request) -> Struct:
        query, page = request.query, ListQuery(request.query)
        kind = parameters.one_of(query, "kind", (decision_pages.FILTER, decision_pages.PRIORITIZE))
        entries, search = self._sources.journal.newest(MAX_PODS), query.get("search", "")
        replica, wall_time = self._sources.replica, self._sources.wall_time

        def rows() -> ListPage[DecisionRow]:
            made = [decision_pages.decision_row(each, replica, wall_time) for each in entries]
            return page.page(decision_pages.select_decisions(made, search, kind))

        return await self._on_worker(rows)

    async def decision(self, request: web.Request) -> Struct:
        entries = {decision_pages.decision_id(each): each for each in self._sources.journal.newest(MAX_PODS)}
        return await self._detail(existing(request.match_info["id"], "id", entries, "decision"), request)

    async def pod(self, request: web.Request) -> Struct:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        entry = self._sources.journal.get(namespace, name)
        if entry is None:
            why = f"this replica keeps no decision on pod {namespace}/{name}; another may: leadsman explain asks each"
            raise RequestError(404, why, "name", f"{namespace}/{name}", "what GET /decisions lists")
        return await self._detail(entry, request)

    async def what_if(self, request: web.Request) -> Struct:
        asked = await _body(request, WhatIfRequest)
        inputs, core = self._sources.inputs.current_inputs(), self._sources.core
        try:
            entry = await self._on_worker(lambda: decide_what_if(asked.yaml, inputs.snapshot.nodes, inputs, core))
        except RequestRefused as error:
            raise RequestError(error.status, str(error), "yaml", "", ALLOWED) from error
        return await self._detail(entry, request)

    async def _detail(self, entry: JournalEntry, request: web.Request) -> DecisionDetail:
        page, search = ListQuery(request.query), request.query.get("search", "")
        replica, wall_time, now = self._sources.replica, self._sources.wall_time, self._sources.inputs.clock()
        inputs = self._sources.inputs
        groups, backup = inputs.delays.groups, inputs.backups.of_pod(entry.pod.uid) if inputs.backups else None
        return await self._on_worker(
            lambda: decision_pages.decision_detail(
                entry, replica, wall_time, now, search, page, groups, backup, self._sources.core.filter_nodes
            )
        )

    async def measure(self, request: web.Request) -> Struct:
        asked = await _body(request, MeasureRequest)
        nodes = self._sources.inputs.state.current.nodes
        for field, name in (("source", asked.source), ("target", asked.target)):
            existing(name, field, nodes, "node")
        if asked.source == asked.target:
            return MeasureResponse(False, "source and target are the same node")
        if self._sources.request_probes is None:
            return MeasureResponse(False, "this process asks no agent to measure")
        self._sources.request_probes([(asked.source, asked.target)])
        return MeasureResponse(True, "")

    async def rewards(self, request: web.Request) -> Struct:
        inputs, page = self._sources.inputs.current_inputs(), ListQuery(request.query)
        pod_type, node, search = (request.query.get(name, "") for name in ("type", "node", "search"))
        return await self._on_worker(lambda: cluster_pages.reward_matrix(inputs, pod_type, node, search, page))

    async def policies(self, request: web.Request) -> Struct:
        inputs, page = self._sources.inputs.current_inputs(), ListQuery(request.query)
        problem = self._sources.inputs.policy.problem.text
        return page.page(cluster_pages.policy_rows(inputs, self._sources.policy_path, problem))

    async def policy(self, _: web.Request) -> Struct:
        policy = self._sources.inputs.policy
        running = RunningPolicy(digest(policy.current), policy.problem.text, self._sources.plugins(), policy.current)
        return msgspec.json.decode(hide_credentials(msgspec.json.encode(running).decode()), type=RunningPolicy)

    async def health(self, _: web.Request) -> Struct:
        view = await self._live.view()
        return health_checks.health(self._sources, view, self._live.decisions.waiting(), self._live.history.shifts)

    async def _on_worker(self, make: Callable[[], T]) -> T:
        try:
            return await self._sources.workers.run(make, PAGE_TIMEOUT_SECONDS, TURN)
        except DeadlineExceeded as error:
            raise RequestError(503, str(error)) from error


async def _body(request: web.Request, kind: type[T]) -> T:
    data = await request.content.read(MAX_BODY_BYTES + 1)
    while data and len(data) <= MAX_BODY_BYTES and (more := await request.content.read(MAX_BODY_BYTES + 1 - len(data))):
        data += more
    if len(data) > MAX_BODY_BYTES:
        raise RequestError(413, f"the body has more than {MAX_BODY_BYTES >> 10} KiB")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        allowed = ", ".join(kind.__struct_fields__)  # type: ignore[attr-defined]
        raise RequestError(
            400, f"the body cannot be read: {error}", "body", "", f"a JSON object with {allowed}"
        ) from error


def _tile(request: web.Request, side: str, nodes: int) -> slice:
    size = parameters.whole_number(request.query, f"{side}s", delay_pages.MAX_TILE, 1, delay_pages.MAX_TILE)
    offset = parameters.whole_number(request.query, f"{side}_offset", 0, 0, max(0, nodes - 1))
    return slice(offset, offset + size)
