"""Nodes of a view as rows, and one node with all its details."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from extender.api.cluster_view import ClusterView
from extender.api.contract.common import NamedValue
from extender.api.contract.nodes import MedianAt, NodeDetail, NodeRow, PeerRow, ReportedNode, ReportedState
from extender.api.group_delays import slow_nodes
from extender.api.history import Moment, NodeShift
from extender.api.moments import iso
from extender.dead_links import DeadLink
from extender.journal import JournalEntry
from leadsman.decision.delay.bounds import BadBound, parse_bounds
from leadsman.network.measured_pairs import Floats
from leadsman.state import keys
from leadsman.state.snapshot import Freshness, NodeState, Snapshot

STATUS = {
    Freshness.FRESH: "fresh",
    Freshness.PROVISIONAL: "provisional",
    Freshness.STALE: "stale",
    Freshness.SILENT: "unknown",
}


def node_rows(
    view: ClusterView,
    shifts: Sequence[NodeShift],
    steady: Collection[str],
    bounded_pods: Mapping[str, int],
    contradicted: Mapping[str, str],
) -> list[NodeRow]:
    """All nodes, by name.

    shifts, steady: as in DelayHistory. bounded_pods: node → pods that have a bound to it.
    contradicted: as in DelaySources.
    """
    table, grouping = view.table, view.grouping
    lost = np.bincount(table.source[table.is_lost], minlength=len(table.names)).tolist()
    measured = np.bincount(table.source[~table.is_lost], minlength=len(table.names)).tolist()
    medians, jitters = number_or_none(table.node_medians), number_or_none(table.node_jitters)
    x, y = number_or_none(view.coordinates[:, 0]), number_or_none(view.coordinates[:, 1])
    slow = set(slow_nodes(view.excess_ms, table.node_medians).tolist())
    moved = {shift.node: shift for shift in shifts}
    records, silent = _record_problems(view), _silent_links(view)
    rows = []
    for at, name in enumerate(table.names):
        state, shift = view.snapshot.nodes[name], moved.get(name)
        problems = list(records.get(name, ()))
        if state.freshness(view.inputs.now) is Freshness.STALE:
            problems.append("its agent stopped reporting")
        problems += silent.get(name, ())
        if state.reachability and state.reachability.local_fault:
            problems.append(f"its probes say nothing about its peers: {state.reachability.local_fault}")
        if at in slow:
            problems.append(f"{view.excess_ms[at]:.3g} ms farther from others than the nodes of its group")
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
                _rounded(state.age_seconds(view.inputs.now)),
                measured[at],
                lost[at],
                medians[at],
                jitters[at],
                round(shift.shift_ms, 3) if shift else 0.0 if name in steady else None,
                iso(shift.since) if shift else None,
                x[at],
                y[at],
                problems,
                bounded_pods.get(name, 0),
            )
        )
    return rows


def _gravity(row: NodeRow) -> tuple[object, ...]:
    """Stopped agents first, then nodes with most problems, then those that moved or lost most."""
    return (
        row.status not in ("stale", "unknown"),
        -len(row.problems),
        -row.peers_lost,
        -abs(row.shift_ms or 0),
        row.name,
    )


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
    """Rows whose name, zone or rack has the text, of this group and status; "" for all."""
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
    """The row with hardware, peers and history."""
    peers = state.latency.peers if state.latency else {}
    hardware = state.hardware.values if state.hardware else {}
    return NodeDetail(
        **{field: getattr(row, field) for field in row.__struct_fields__},
        hardware=[NamedValue(name, value) for name, value in sorted(hardware.items())],
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
        history=[MedianAt(iso(moment.at), moment.rtt_ms) for moment in history],
    )


def reported_state(snapshot: Snapshot, now: float) -> ReportedState:
    """now: monotonic seconds."""
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


def bounded_pods_by_node(entries: Sequence[JournalEntry], nodes: Mapping[str, object]) -> Mapping[str, int]:
    """How many of the pods in the journal have a delay bound to each node itself."""
    counts = Counter[str]()
    for entry in entries:
        if not entry.pod.has_delay_bounds:
            continue
        try:
            references = {bound.reference for bound in parse_bounds(entry.pod)}
        except BadBound:
            continue
        counts.update(reference for reference in references if reference in nodes)
    return counts


def number_or_none(values: Floats) -> list[float | None]:
    """For JSON: NaN is None; rounded to a microsecond."""
    return [None if value != value else round(value, 3) for value in values.tolist()]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _silent_links(view: ClusterView) -> Mapping[str, Sequence[str]]:
    """Node → its links without a reply, in words: the link itself where there is one, else how many."""
    out, into = Counter[str](), Counter[str]()
    only = dict[str, DeadLink]()
    for link in view.dead_links:
        out[link.source] += 1
        into[link.target] += 1
        only |= {link.source: link, link.target: link}
    problems = dict[str, Sequence[str]]()
    for node, link in only.items():
        if out[node] + into[node] == 1:
            problems[node] = [link.text]
            continue
        probing = f"no reply from {out[node]} of the nodes that it probes" if out[node] else ""
        probed = f"{into[node]} nodes that probe it get no reply" if into[node] else ""
        problems[node] = [text for text in (probing, probed) if text]
    return problems


def _record_problems(view: ClusterView) -> Mapping[str, list[str]]:
    problems: dict[str, list[str]] = {}
    for key, problem in view.snapshot.problems.items():
        node, _, kind = key.removeprefix(keys.NODES_PREFIX).partition("/")
        problems.setdefault(node, []).append(f"record {kind}: {problem}" if kind else problem)
    return problems
