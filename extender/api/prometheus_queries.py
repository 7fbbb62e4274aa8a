"""PromQL of the delay history, and what Prometheus' responses mean. Pure.

The agents' series have the label `node` by the PodMonitor's relabeling, and `peer` for peers that last alone
(docs/decisions/0057-which-peers-have-series.md).
"""

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite

from msgspec import Struct

from extender.api.contract.delays import PairChange
from extender.api.history import Moment, MomentMedians
from extender.api.moments import iso
from leadsman.sources.telemetry.range_query import RangeSeries

RTT = "leadsman_peer_rtt_p50_seconds"

MAX_POINTS = 300
_STEPS_SECONDS = (15, 30, 60, 120, 300, 600, 900, 1800, 3600)

PEAK_STEP_SECONDS = 300
"""From this step on a value is the largest since the one before, or what lasted for less than a step would not be seen.
Below it, a window of one step may hold no scrape."""

MAX_PAIRS = 50
"""Pairs whose change is named, at most."""

_NOT_SCRAPED = (
    "let it scrape the agents, with the node's name as the label node (component prometheus, chart"
    " serviceMonitor.enabled=true)"
)


class Unanswered(Struct, frozen=True):
    """There is no history from Prometheus. reason: why, and what to do."""

    reason: str


class PairSeries(Struct, frozen=True):
    """The slower direction of a pair, evenly spaced, oldest first."""

    step_seconds: int
    moments: Sequence[Moment]


class MomentChanges(Struct, frozen=True):
    """Each node's median at two moments."""

    before: MomentMedians
    after: MomentMedians


def step_for(span_seconds: int) -> int:
    """Seconds between two values, so that the span, of 12 days at most, has no more than MAX_POINTS steps."""
    return next(step for step in _STEPS_SECONDS if step * MAX_POINTS >= span_seconds)


def quoted(text: str) -> str:
    """A PromQL string. Whatever the text is, it ends nothing but itself."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def pair_query(a: str, b: str, step_seconds: int) -> str:
    """Two series at most, by the label `of`: of the pair, its slower direction; of both nodes, how many pairs they
    have, which says why there may be none of this one."""
    pair = f"{_selector(a, b)}", f"{_selector(b, a)}"
    if step_seconds >= PEAK_STEP_SECONDS:
        pair = f"max_over_time({pair[0]}[{step_seconds}s])", f"max_over_time({pair[1]}[{step_seconds}s])"
    slower = f"max({pair[0]} or {pair[1]})"
    pairs_of_nodes = f"count({_selector(a)} or {_selector(b)})"
    return f'label_replace({slower}, "of", "pair", "", "") or label_replace({pairs_of_nodes}, "of", "nodes", "", "")'


def _selector(node: str, peer: str | None = None) -> str:
    of_peer = "" if peer is None else f",peer={quoted(peer)}"
    return f"{RTT}{{node={quoted(node)}{of_peer}}}"


def read_pair(series: Iterable[RangeSeries], a: str, b: str, moments: range) -> PairSeries | Unanswered:
    """moments: Unix seconds that were asked for."""
    values_of = {each.metric.get("of"): dict(_values_ms(each)) for each in series}
    if "pair" in values_of:
        return PairSeries(moments.step, [Moment(float(at), values_of["pair"].get(at)) for at in moments])
    if "nodes" in values_of:
        return Unanswered(
            "Prometheus has no series of this pair: only peers on the ring and lasting near ones have one"
        )
    return Unanswered(f"Prometheus has no series of {a} or {b} in this time; {_NOT_SCRAPED}")


MEDIANS_QUERY = f"quantile by (node) (0.5, {RTT})"
"""A series a node."""


def read_medians(series: Iterable[RangeSeries], begin: int, end: int) -> MomentChanges | Unanswered:
    """begin, end: the moments of the values."""
    values_of = {each.metric.get("node", ""): dict(_values_ms(each)) for each in series}
    values_of.pop("", None)
    before, after = (
        MomentMedians(at, {node: values[at] for node, values in values_of.items() if at in values})
        for at in (begin, end)
    )
    for moment in (before, after):
        if not moment.by_node:
            return Unanswered(f"Prometheus has no round trip of any node at {iso(moment.at)}; {_NOT_SCRAPED}")
    return MomentChanges(before, after)


def pairs_query(begin: int, end: int) -> str:
    """A series for each of the pairs that changed most."""
    change = f"abs(max by (node, peer) ({RTT} @ {end}) - max by (node, peer) ({RTT} @ {begin}))"
    return f"max by (node, peer) ({RTT}) and topk({MAX_PAIRS}, {change})"


def read_pairs(series: Iterable[RangeSeries], begin: int, end: int) -> Sequence[PairChange]:
    """Those with a value at both moments, the largest change first."""
    pairs = []
    for each in series:
        values = dict(_values_ms(each))
        if begin in values and end in values:
            change_ms = round(values[end] - values[begin], 3)
            names = each.metric.get("node", ""), each.metric.get("peer", "")
            pairs.append(PairChange(*names, values[begin], values[end], change_ms))
    return sorted(pairs, key=lambda pair: (-abs(pair.change_ms), pair.source, pair.target))


def _values_ms(series: RangeSeries) -> Iterator[tuple[int, float]]:
    """Unix seconds and ms; what is no number is left out."""
    for at, text in series.values:
        if isfinite(value := float(text)):
            yield round(at), round(1000 * value, 3)
