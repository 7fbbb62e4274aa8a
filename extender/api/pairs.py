"""One pair of nodes with its last hour, and every node against one bound: both judged by the functions that decide."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from urllib.parse import quote

import numpy as np
from aiohttp import web
from msgspec import Struct

from extender.api.history import DelayHistory, Moment
from extender.api.live import LiveState
from extender.api.nodes import number_or_none
from extender.api.requests import (
    PAGED,
    ListPage,
    ListQuery,
    RequestError,
    Route,
    existing,
    one_of,
    positive_ms,
    read_body,
)
from extender.api.view import ClusterView, source_name
from extender.api.what_if import LONGEST_BOUND_MS
from extender.dead_links import DeadLink
from leadsman.decision.delay.bounds import DelayBound, Target, node_exists
from leadsman.decision.delay.evaluation import EvaluatedBound, PairRow, evaluate, pair_rows
from leadsman.decision.delay.explain_delay import AGENTS_SOURCE, delay_evidence, source_text
from leadsman.decision.delay.rtt_table import Outcome, reason
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.view import peer_windows
from leadsman.kube.names import DELAY_LABEL_PREFIX
from leadsman.network.calibration import COVERAGE


class DirectedDelay(Struct, frozen=True):
    """One direction of a pair, as its agent measured it. source: "agents". reporter: the node that measured."""

    rtt_ms: float | None
    p95_ms: float | None
    min_ms: float | None
    jitter_ms: float | None
    sent: int
    received: int
    age_seconds: float | None
    source: str
    reporter: str


class DelayEstimate(Struct, frozen=True):
    """An estimated round trip; low_ms..high_ms contain the true one in `coverage` of cases.

    source: "group", "coordinates", "remembered" or "measured".
    """

    rtt_ms: float
    low_ms: float
    high_ms: float
    coverage: float
    source: str


class UsedDelay(Struct, frozen=True):
    """The delay that a decision would use now. reason: where it comes from, or why there is none."""

    rtt_ms: float | None
    reason: str


class PairDelays(Struct, frozen=True):
    """All that is known about the delay between two nodes.

    history: of the last hour, a value a minute, the newest last.
    grafana_url: where more of the past is shown; "": nobody said where.
    """

    a: str
    b: str
    forward: DirectedDelay | None
    backward: DirectedDelay | None
    estimate: DelayEstimate | None
    used: UsedDelay
    history: Sequence[Moment]
    grafana_url: str


class NodeWithin(Struct, frozen=True):
    """Tells how one node stands to a bound. basis: "measured", "estimate" or "unknown". reason: why it is refused."""

    name: str
    rtt_ms: float | None
    low_ms: float | None
    high_ms: float | None
    basis: str
    passes: bool
    reason: str
    x: float | None
    y: float | None


class NodesWithin(Struct, frozen=True):
    """Every node with its verdict on one bound, from the filter that kube-scheduler's calls go through."""

    node: str
    bound_ms: float
    items: Sequence[NodeWithin]


def pair_delays(
    view: ClusterView, a: str, b: str, inputs: DecisionInputs, own: DelayHistory, grafana_url: str
) -> PairDelays:
    """Returns both directions of a pair, the estimate, what a decision would use, and the past. inputs: the newest.

    grafana_url: with {a} and {b} where the names belong; "": there is none.
    """
    return PairDelays(
        a,
        b,
        _directed(a, b, inputs),
        _directed(b, a, inputs),
        _estimate(view, a, b),
        _used(a, b, inputs),
        own.of_pair(a, b),
        grafana_url.replace("{a}", quote(a, safe="")).replace("{b}", quote(b, safe="")),
    )


LINK_SORTS: Mapping[str, Callable[[DeadLink], tuple[object, ...]]] = {
    "worst": lambda link: (not link.is_back_lost, link.source, link.target),
    "source": lambda link: (link.source, link.target),
    "target": lambda link: (link.target, link.source),
}


def _directed(reporter: str, target: str, inputs: DecisionInputs) -> DirectedDelay | None:
    window = peer_windows(inputs.snapshot.nodes.get(reporter)).get(target)
    if window is None:
        return None
    age = inputs.snapshot.nodes[reporter].age_seconds(inputs.now)
    return DirectedDelay(
        window.p50_ms,
        window.p95_ms,
        window.min_ms,
        window.jitter_ms,
        window.sent,
        window.received,
        None if age is None else round(age, 1),
        AGENTS_SOURCE,
        reporter,
    )


def _estimate(view: ClusterView, a: str, b: str) -> DelayEstimate | None:
    one, other = view.table.index.get(a), view.table.index.get(b)
    if one is None or other is None:
        return None
    table = view.estimates.between(np.array([one]), np.array([other]))
    if table.source[0] < 0:
        return None
    rtt_ms, low_ms, high_ms = (float(round(column[0], 3)) for column in table[:3])
    return DelayEstimate(rtt_ms, low_ms, high_ms, COVERAGE, source_name(int(table.source[0])))


def _used(a: str, b: str, inputs: DecisionInputs) -> UsedDelay:
    """Returns the delay that a decision uses: the evidence of a pod with a bound to `a` that asks about `b`."""
    pod = PodInfo("", "", labels=MappingProxyType({f"{DELAY_LABEL_PREFIX}{a}": f"{LONGEST_BOUND_MS:.0f}"}))
    distances = delay_evidence(pod, [b], inputs).distances.get(b, ())
    if not distances:
        return UsedDelay(None, "nothing is known of this pair")
    evidence = distances[0]
    if evidence.rtt_ms is None:
        why = "; ".join(filter(None, [evidence.why, evidence.doubt]))
        return UsedDelay(None, why or "nothing is known of this pair")
    source = f"estimated by {evidence.source}" if evidence.estimated else source_text(evidence)
    why = "; ".join(filter(None, [source, evidence.why, evidence.doubt]))
    return UsedDelay(round(evidence.rtt_ms, 3), why)


def nodes_within(view: ClusterView, node: str, bound_ms: float, inputs: DecisionInputs) -> NodesWithin:
    """Judges every node by a bound to `node`: those of the cluster, or while they are not followed those of the view.
    inputs: the newest."""
    names = sorted(inputs.node_roles) or view.table.names
    bound, target = DelayBound(node, bound_ms), Target(node, (node,))
    evaluation = evaluate(bound, target, inputs)
    (row,) = pair_rows(EvaluatedBound(bound, target, evaluation), inputs)
    places = evaluation.index.positions(names)
    rtt_ms = number_or_none(evaluation.rtt_ms[places])
    low_ms, high_ms = _interval(row, places, len(names))
    on_map = dict(zip(view.table.names, zip(*map(number_or_none, view.coordinates.T), strict=True), strict=True))
    readings, outcomes = evaluation.reading[places].tolist(), evaluation.outcome[places].tolist()
    items = []
    for at, name in enumerate(names):
        outcome, is_measured = Outcome(outcomes[at]), readings[at] >= 0
        basis = "measured" if is_measured else "unknown" if rtt_ms[at] is None else "estimate"
        low, high = (rtt_ms[at], rtt_ms[at]) if is_measured else (low_ms[at], high_ms[at])
        refusal, (x, y) = reason(outcome, node, bound_ms), on_map.get(name, (None, None))
        items.append(NodeWithin(name, rtt_ms[at], low, high, basis, not outcome.refuses, refusal, x, y))
    return NodesWithin(node, bound_ms, items)


def _interval(row: PairRow, places: np.ndarray, nodes: int) -> tuple[list[float | None], list[float | None]]:
    if row.estimated is None:
        return [None] * nodes, [None] * nodes
    return number_or_none(row.estimated.low_ms[places]), number_or_none(row.estimated.high_ms[places])


class MeasureRequest(Struct, frozen=True):
    """Asks for one measurement. source: the node that measures."""

    source: str
    target: str


class MeasureResponse(Struct, frozen=True):
    """Tells whether the measurement was requested. reason: why not; "" when it was."""

    accepted: bool
    reason: str


async def pair(live: LiveState, request: web.Request) -> PairDelays:
    a, b = request.match_info["a"], request.match_info["b"]
    view, inputs = await live.view(), live.sources.inputs.current_inputs()
    for field, name in (("a", a), ("b", b)):
        existing(name, field, view.snapshot.nodes, "node")
    if a == b:
        raise RequestError(400, f"a delay is between two nodes, and {a!r} is one", "b", b, "the name of another node")
    return await live.on_worker(lambda: pair_delays(view, a, b, inputs, live.history, live.sources.grafana_url))


async def lost(live: LiveState, request: web.Request) -> ListPage[DeadLink]:
    page, search = ListQuery(request.query), request.query.get("search", "")
    sort = one_of(request.query, "sort", LINK_SORTS, "worst")
    links = sorted((await live.view()).dead_links, key=LINK_SORTS[sort])
    return page.page([link for link in links if search.lower() in f"{link.source}\n{link.target}".lower()])


async def within(live: LiveState, request: web.Request) -> NodesWithin:
    bound_ms, node = positive_ms(request.query, "bound_ms"), request.query.get("node", "")
    view, inputs = await live.view(), live.sources.inputs.current_inputs()
    if not node_exists(node, (), inputs):
        existing(node, "node", view.snapshot.nodes, "node")
    return await live.on_worker(lambda: nodes_within(view, node, bound_ms, inputs))


async def measure(live: LiveState, request: web.Request) -> MeasureResponse:
    asked, sources = await read_body(request, MeasureRequest), live.sources
    for field, name in (("source", asked.source), ("target", asked.target)):
        existing(name, field, sources.inputs.state.current.nodes, "node")
    if asked.source == asked.target:
        return MeasureResponse(False, "source and target are the same node")
    if sources.request_probes is None:
        return MeasureResponse(False, "this process asks no agent to measure")
    sources.request_probes([(asked.source, asked.target)])
    return MeasureResponse(True, "")


ROUTES = (
    Route("/delays/pairs/{a}/{b}", pair, PairDelays, "One pair of nodes, and its last hour."),
    Route("/delays/lost", lost, ListPage[DeadLink], "Links of which every probe was lost.", ("search", "sort", *PAGED)),
    Route(
        "/delays/within",
        within,
        NodesWithin,
        "Every node against a delay bound to one node.",
        ("node", "bound_ms"),
        ("node", "bound_ms"),
    ),
    Route(
        "/measure",
        measure,
        MeasureResponse,
        "Asks a node's agent to measure another node now.",
        takes=MeasureRequest,
        status=202,
    ),
)
