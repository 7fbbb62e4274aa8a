"""Serves all nodes as rows, one node with what is known of it, and what all agents last reported."""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
from aiohttp import web
from msgspec import Struct

from extender.api.history import Moment, NodeShift
from extender.api.live import LiveState
from extender.api.requests import PAGED, ListPage, ListQuery, Route, existing, iso, one_of
from extender.api.view import ClusterView, slow_nodes
from extender.dead_links import DeadLink
from leadsman.network.measured_pairs import Floats
from leadsman.state import keys
from leadsman.state.snapshot import Freshness, NodeState, Snapshot


class NodeRow(Struct, frozen=True):
    """One node, as a row of the list of nodes.

    group: id of its delay group.
    address: of its agent; null: unknown.
    status: "fresh", "provisional", "stale" or "unknown" (no heartbeat).
    age_seconds: since its last report.
    median_rtt_ms, jitter_ms: medians over the peers that it measured.
    shift_ms, shift_since: by how much it moved away from all others within the hour of history, and when;
    0: it stayed; null: too few pairs were measured to tell.
    """

    name: str
    group: str
    zone: str
    rack: str
    address: str | None
    status: str
    age_seconds: float | None
    peers_measured: int
    peers_lost: int
    median_rtt_ms: float | None
    jitter_ms: float | None
    shift_ms: float | None
    shift_since: str | None
    problems: Sequence[str]


class ReportedNode(Struct, frozen=True):
    """Says what a node's agent last reported. peers_p50_ms: peer → median round trip; null: probed, and none was
    timed."""

    status: str
    age_seconds: float | None
    address: str | None
    zone: str
    peers_p50_ms: Mapping[str, float | None]
    hardware: Mapping[str, float]


class ReportedState(Struct, frozen=True):
    """All that agents last reported, at one revision of etcd."""

    cluster: str
    revision: int
    nodes: Mapping[str, ReportedNode]


class PeerRow(Struct, frozen=True):
    """Says what a node measured to one of its peers. lost: probes without a reply in the window."""

    name: str
    rtt_ms: float | None
    p95_ms: float | None
    jitter_ms: float | None
    lost: int
    age_seconds: float | None


class NodeDetail(NodeRow, frozen=True):
    """A node's row and all else that is known of it. implausible: peers to which it reports an impossible delay."""

    hardware: Mapping[str, float]
    peers: Sequence[PeerRow]
    implausible: Sequence[str]
    history: Sequence[Moment]


STATUS = {
    Freshness.FRESH: "fresh",
    Freshness.PROVISIONAL: "provisional",
    Freshness.STALE: "stale",
    Freshness.SILENT: "unknown",
}


_LINKS_NAMED = 2


def node_rows(
    view: ClusterView, shifts: Sequence[NodeShift], steady: Collection[str], contradicted: Mapping[str, str]
) -> list[NodeRow]:
    """Returns all nodes, by name.

    shifts, steady: as in DelayHistory. contradicted: as in DelaySources.
    """
    table, grouping = view.table, view.grouping
    lost = np.bincount(table.source[table.is_lost], minlength=len(table.names)).tolist()
    measured = np.bincount(table.source[~table.is_lost], minlength=len(table.names)).tolist()
    medians, jitters = number_or_none(table.node_medians), number_or_none(table.node_jitters)
    slow = set(slow_nodes(view.excess_ms, table.node_medians).tolist())
    moved = {shift.node: shift for shift in shifts}
    records, silent = _record_problems(view), _silent_links(view)
    rows = []
    for at, name in enumerate(table.names):
        state, shift = view.snapshot.nodes[name], moved.get(name)
        age_seconds = state.age_seconds(view.inputs.now)
        problems = list(records.get(name, ()))
        if state.freshness(view.inputs.now) is Freshness.STALE:
            problems.append("its agent stopped reporting")
        problems += silent.get(name, ())
        if state.reachability and state.reachability.local_fault:
            problems.append(f"its probes say nothing about its peers: {state.reachability.local_fault}")
        if at in slow and shift is None:
            problems.append(f"{view.excess_ms[at]:.3g} ms farther from others than the nodes of its group")
        if shift and shift.shift_ms > 0:
            problems.append(shift.text)
        if name in contradicted:
            problems.append(contradicted[name])
        rows.append(
            NodeRow(
                name,
                grouping.ids[grouping.group_of[at]],
                state.identity.zone if state.identity else "",
                state.identity.rack if state.identity else "",
                state.identity.address if state.identity else None,
                STATUS[state.freshness(view.inputs.now)],
                None if age_seconds is None else round(age_seconds, 1),
                measured[at],
                lost[at],
                medians[at],
                jitters[at],
                round(shift.shift_ms, 3) if shift else 0.0 if name in steady else None,
                iso(shift.since) if shift else None,
                problems,
            )
        )
    return rows


def _gravity(row: NodeRow) -> tuple[object, ...]:
    """Ranks nodes: stopped agents first, then nodes that moved away, then those with most problems."""
    stopped = row.status in ("stale", "unknown")
    return (not stopped, -max(0.0, row.shift_ms or 0.0), -len(row.problems), -row.peers_lost, row.name)


SORTS: Mapping[str, Callable[[NodeRow], tuple[object, ...]]] = {
    "problem": _gravity,
    "name": lambda row: (row.name,),
    "loss": lambda row: (-row.peers_lost, row.name),
    "shift": lambda row: (-abs(row.shift_ms or 0), row.name),
    "age": lambda row: (row.age_seconds is not None, -(row.age_seconds or 0), row.name),
    "rtt": lambda row: (row.median_rtt_ms is None, -(row.median_rtt_ms or 0), row.name),
}
"""The most notable first; of ages the unknown one."""


def select_nodes(rows: Sequence[NodeRow], search: str, group: str, status: str, sort: str) -> list[NodeRow]:
    """Returns the rows of this group and status whose name, zone or rack contains the text; "" matches all."""
    text = search.lower()
    selected = [
        row
        for row in rows
        if (not text or text in row.name.lower() or text in row.zone.lower() or text in row.rack.lower())
        and (not group or row.group == group)
        and (not status or row.status == status)
    ]
    return sorted(selected, key=SORTS[sort])


def node_detail(row: NodeRow, state: NodeState, implausible: Sequence[str], history: Sequence[Moment]) -> NodeDetail:
    """Adds hardware, peers and history to the node's row."""
    peers = state.latency.peers if state.latency else {}
    hardware = state.hardware.values if state.hardware else {}
    return NodeDetail(
        **{field: getattr(row, field) for field in row.__struct_fields__},
        hardware=dict(sorted(hardware.items())),
        peers=[
            PeerRow(
                name,
                window.p50_ms,
                window.p95_ms,
                window.jitter_ms,
                window.sent - window.received,
                window.last_reply_age_seconds,
            )
            for name, window in sorted(peers.items())
        ],
        implausible=implausible,
        history=history,
    )


def reported_state(snapshot: Snapshot, now: float) -> ReportedState:
    """Returns what all agents last reported. now: monotonic seconds."""
    nodes = {name: _reported(state, now) for name, state in sorted(snapshot.nodes.items())}
    return ReportedState(snapshot.cluster_id, snapshot.revision, nodes)


def _reported(state: NodeState, now: float) -> ReportedNode:
    return ReportedNode(
        STATUS[state.freshness(now)],
        state.age_seconds(now),
        state.identity.address if state.identity else None,
        state.identity.zone if state.identity else "",
        {peer: window.p50_ms for peer, window in state.latency.peers.items()} if state.latency else {},
        state.hardware.values if state.hardware else {},
    )


def number_or_none(values: Floats) -> list[float | None]:
    """Makes numbers ready for JSON: NaN becomes None, and a value is rounded to a microsecond."""
    return [None if value != value else round(value, 3) for value in values.tolist()]


def _silent_links(view: ClusterView) -> Mapping[str, Sequence[str]]:
    """Maps each node to its links without a reply in words: each of them where they are few, else how many."""
    links = dict[str, list[DeadLink]]()
    for link in view.dead_links:
        for node in (link.source, link.target):
            links.setdefault(node, []).append(link)
    return {node: _silence(node, each) for node, each in links.items()}


def _silence(node: str, links: Sequence[DeadLink]) -> Sequence[str]:
    if len(links) <= _LINKS_NAMED:
        return [link.text for link in links]
    out = sum(link.source == node for link in links)
    probing = f"no reply from {out} of the nodes that it probes" if out else ""
    probed = f"no reply to {len(links) - out} of the nodes that probe it" if len(links) > out else ""
    return [text for text in (probing, probed) if text]


def _record_problems(view: ClusterView) -> Mapping[str, list[str]]:
    problems: dict[str, list[str]] = {}
    for key, problem in view.snapshot.problems.items():
        node, _, kind = key.removeprefix(keys.NODES_PREFIX).partition("/")
        problems.setdefault(node, []).append(f"record {kind}: {problem}" if kind else problem)
    return problems


async def nodes(live: LiveState, request: web.Request) -> ListPage[NodeRow]:
    query, page = request.query, ListQuery(request.query)
    sort, status = one_of(query, "sort", SORTS, "name"), one_of(query, "status", STATUS.values())
    search, group = query.get("search", ""), query.get("group", "")
    view = await live.view()
    return await live.on_worker(lambda: page.page(select_nodes(_rows(live, view), search, group, status, sort)))


async def node(live: LiveState, request: web.Request) -> NodeDetail:
    name, view = request.match_info["name"], await live.view()
    state: NodeState = existing(name, "name", view.snapshot.nodes, "node")

    def detail() -> NodeDetail:
        row = _rows(live, view)[view.table.index[name]]
        implausible = live.sources.inputs.delays.implausible.get(name, ())
        return node_detail(row, state, implausible, live.history.of_node(name))

    return await live.on_worker(detail)


async def state(live: LiveState, _: web.Request) -> ReportedState:
    inputs = live.sources.inputs
    return await live.on_worker(lambda: reported_state(inputs.state.current, inputs.clock()))


def _rows(live: LiveState, view: ClusterView) -> list[NodeRow]:
    sources, history = live.sources, live.history
    return node_rows(view, history.shifts, history.steady, sources.inputs.delays.contradicted)


ROUTES = (
    Route("/nodes", nodes, ListPage[NodeRow], "All nodes.", ("search", "group", "status", "sort", *PAGED)),
    Route("/nodes/{name}", node, NodeDetail, "One node, with its peers and history."),
    Route("/state", state, ReportedState, "All that agents last reported, as it is now."),
)
