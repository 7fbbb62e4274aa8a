"""What is known of the round trip between one reference node and every other, before any bound.

Measured: by a fresh agent at either end, else by the first of the other views that says anything about the pair. A
window counts when at least one reply came in it: a lost probe is never a delay. Of the two directions the policy takes
one, or the larger of those that one source has. What one agent alone reports counts as no less than what other nodes
report says of the pair. Of a dead reference that is not measured any more, what was measured last counts
(DecisionInputs.last_round_trips). Beside it, never instead of it: an estimate.

A reading is one number for a pair: the round trip in ms, or minus the Outcome that says why there is none. So of two
round trips the larger reading is the longer one, and of two causes the smaller reading says more.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from itertools import chain
from operator import attrgetter
from types import MappingProxyType

import numpy as np
from msgspec import Struct

from leadsman.decision.columns import FloatArray
from leadsman.decision.freshness import cached_while_fresh, fresh_mask, freshness_of
from leadsman.decision.inputs import DecisionInputs, DelayView, EstimateView
from leadsman.decision.node_entries import NamedValues
from leadsman.decision.node_index import ABSENT, BoolArray, CodeArray, NodeIndex
from leadsman.decision.policy import Direction, Statistic
from leadsman.state.records import PeerLatency
from leadsman.state.snapshot import Freshness, NodeState

# How a node may stand to a bound, the best first, and the reason that each refusal is given.


class Outcome(IntEnum):
    """What one pair of nodes means for one bound. Of several pairs the smallest is the best."""

    PASSES = 0
    """A measured round trip keeps the bound, or an estimate that may count does."""
    ACCEPTED_UNKNOWN = 1
    """Neither is known, and the pod or the policy accepts that."""
    UNMEASURED = 2
    PROVISIONAL = 3
    """Measured by a node that has not reported since this process started."""
    STALE = 4
    """Measured by a node that stopped reporting."""
    IMPLAUSIBLE = 5
    """Measured by one of the two only, as less than what other nodes report of both allows."""
    ESTIMATE_UNSURE = 6
    """The bound lies within the interval of the estimate."""
    ESTIMATE_OVER = 7
    """The interval of the estimate lies above the bound."""
    NO_REPLY = 8
    """Probed lately, and every probe was lost. Never outvoted by an estimate."""
    MEASURED_OVER = 9

    @property
    def refuses(self) -> bool:
        return self > Outcome.ACCEPTED_UNKNOWN


_REASONS = {
    Outcome.UNMEASURED: "delay to {} was not measured",
    Outcome.PROVISIONAL: "delay to {} was read at start and not confirmed by a new report",
    Outcome.STALE: "delay to {} is stale",
    Outcome.IMPLAUSIBLE: "delay to {} is implausible: only one end reports it, and lower than other nodes allow",
    Outcome.ESTIMATE_UNSURE: "estimated delay to {} may be over {:g} ms",
    Outcome.ESTIMATE_OVER: "estimated delay to {} over {:g} ms",
    Outcome.NO_REPLY: "no reply between the node and {}",
    Outcome.MEASURED_OVER: "delay to {} over {:g} ms",
}


def reason(outcome: Outcome, target: str, bound_ms: float) -> str:
    """The same words for every node with this outcome, as kube-scheduler counts equal reasons. "" when it passes."""
    return _REASONS.get(outcome, "").format(target, bound_ms)


Readings = FloatArray

UNMEASURED, NO_REPLY = -float(Outcome.UNMEASURED), -float(Outcome.NO_REPLY)
IMPLAUSIBLE = -float(Outcome.IMPLAUSIBLE)
_PROVISIONAL, _STALE = -float(Outcome.PROVISIONAL), -float(Outcome.STALE)

BEFORE_FAILURE, BY_AGENTS, FIRST_VIEW = -1, 0, 1
"""MeasuredRow.source; the number of a view is FIRST_VIEW + its place in DecisionInputs.delay_views."""


class MeasuredRow(Struct, frozen=True):
    """Arrays over an index; the reference itself is at 0 ms.

    reading: the round trip, or why there is none: UNMEASURED, PROVISIONAL, STALE, IMPLAUSIBLE or NO_REPLY.
    source: who measured it; says nothing where there is no round trip.
    backward: whether it is the other node's measurement, and not the reference's; also of an implausible one.
    doubted: one agent alone reports less than what other nodes report says; so it is implausible, or counts as that.
    """

    reading: Readings
    source: CodeArray
    backward: BoolArray
    doubted: BoolArray


class ViewRow(Struct, frozen=True):
    """What one view says of a reference and every node of an index. beyond: nodes that the index does not have."""

    reading: Readings
    backward: BoolArray
    beyond: Sequence[str]


class EstimateRow(Struct, frozen=True):
    """Arrays over an index, NaN where there is no estimate. It says nothing about whether a node can be reached.

    source: a place in `sources`. expected_ms, lowest_ms: as in EstimatedRow, 0 where it says nothing. beyond: nodes
    that the index does not have.
    """

    rtt_ms: FloatArray
    low_ms: FloatArray
    high_ms: FloatArray
    expected_ms: FloatArray
    lowest_ms: FloatArray
    source: CodeArray
    sources: Sequence[str]
    beyond: Sequence[str]


def node_index(references: tuple[str, ...], inputs: DecisionInputs) -> NodeIndex:
    """Of all nodes of which anything is known beside these."""
    named: list[tuple[object, Collection[str]]] = [(references, references)]
    named += ((view, view.nodes) for view in inputs.delay_views)
    named += ((peers, peers) for reference in references if (peers := peer_windows(reference, inputs)))
    named += ((last, last.rtt_ms) for reference in references if (last := inputs.last_round_trips.get(reference)))
    index = inputs.cache.index(inputs.snapshot, named)
    rows = [row for reference in references for row in _rows_of_others(reference, index, inputs)]
    beyond = [(row, row.beyond) for row in rows if row.beyond]
    return inputs.cache.index(inputs.snapshot, [*named, *beyond]) if beyond else index


def _rows_of_others(reference: str, index: NodeIndex, inputs: DecisionInputs) -> Iterator[ViewRow | EstimateRow]:
    yield from (view_row(view, reference, index, inputs) for view in inputs.delay_views)
    if inputs.estimates is not None:
        yield estimate_row(inputs.estimates, reference, index, inputs)


def live_mask(index: NodeIndex, inputs: DecisionInputs) -> BoolArray:
    """The nodes that somebody vouches for now: an agent's fresh heartbeat, or another source that is fresh. An estimate
    counts only between two of them: of a silent node nobody knows that it can be reached at all."""
    return cached_while_fresh(("live", index), lambda: _find_live(index, inputs), inputs)


def _find_live(index: NodeIndex, inputs: DecisionInputs) -> BoolArray:
    live = fresh_mask(index, inputs)
    for view in inputs.delay_views:
        if inputs.now < view.fresh_until:
            live = live | inputs.cache.per_object(view, ("nodes", index), partial(index.mask, view.nodes))
    return live


def measured_row(reference: str, index: NodeIndex, inputs: DecisionInputs) -> MeasuredRow:
    """`index` has the reference."""
    direction, nothing = inputs.policy.delay.direction, np.full(len(index) + 1, UNMEASURED)
    forward = nothing if direction is Direction.BACKWARD else _forward_readings(reference, index, inputs)
    backward = nothing if direction is Direction.FORWARD else _backward_readings(reference, index, inputs)
    reading, is_backward = _larger(forward, backward)
    doubted = np.zeros(len(index) + 1, np.bool_)
    if inputs.estimates is not None:
        others = estimate_row(inputs.estimates, reference, index, inputs)
        doubted = ((forward < 0) | (backward < 0)) & (reading >= 0) & (reading < others.expected_ms)
        reading[doubted] = np.where(reading < others.lowest_ms, IMPLAUSIBLE, others.expected_ms)[doubted]
    source = np.zeros(len(index) + 1, np.int8)
    for number, view in enumerate(inputs.delay_views, FIRST_VIEW):
        if inputs.now < view.fresh_until:
            row = view_row(view, reference, index, inputs)
            adds = (reading < 0) & (reading != NO_REPLY) & (row.reading != UNMEASURED)
            reading[adds], source[adds], is_backward[adds] = row.reading[adds], number, row.backward[adds]
    if last := inputs.last_round_trips.get(reference):
        before = _place(last.rtt_ms, index)
        # Of a dead node only the other end reports, which alone is doubted: what counted while both did goes before.
        replaces = ((reading < 0) | doubted) & (before != UNMEASURED)
        reading[replaces], source[replaces], doubted[replaces] = before[replaces], BEFORE_FAILURE, False
    reading[index.position(reference)] = 0.0
    return MeasuredRow(reading, source, is_backward, doubted)


def _larger(forward: Readings, backward: Readings) -> tuple[Readings, BoolArray]:
    """The longer round trip, else the cause that says more; and whether it is the backward one. New arrays."""
    longer = np.maximum(forward, backward)
    reading = np.where(longer < 0, np.minimum(forward, backward), longer)
    return reading, backward > forward


def peer_windows(node: str, inputs: DecisionInputs) -> Mapping[str, PeerLatency]:
    """Peer → the window that the node's agent measured."""
    state = inputs.snapshot.nodes.get(node)
    return _NO_WINDOWS if state is None or state.latency is None else state.latency.peers


_NO_WINDOWS: Mapping[str, PeerLatency] = MappingProxyType({})


def _forward_readings(reference: str, index: NodeIndex, inputs: DecisionInputs) -> Readings:
    """By the reference's agent."""
    peers, rtt = peer_windows(reference, inputs), rtt_getter(inputs.policy.delay.statistic)
    readings = inputs.cache.per_object(
        peers,
        (inputs.policy.delay.statistic, index),
        lambda: index.place(peers, _readings(list(peers.values()), rtt), UNMEASURED),
    )
    freshness = freshness_of(reference, inputs)
    if freshness is Freshness.FRESH:
        return readings
    why = _PROVISIONAL if freshness is Freshness.PROVISIONAL else _STALE
    return np.where(readings == UNMEASURED, UNMEASURED, why)


def _backward_readings(reference: str, index: NodeIndex, inputs: DecisionInputs) -> Readings:
    """By the agent of each of the others."""
    statistic = inputs.policy.delay.statistic
    windows = inputs.cache.node_entries(
        "windows", statistic, partial(_all_reports, rtt_getter(statistic)), inputs.snapshot, index
    )
    readings = windows.column(reference, UNMEASURED)
    old = ~fresh_mask(index, inputs) & (readings != UNMEASURED)
    if not old.any():
        return readings
    causes = inputs.cache.node_array("cause", None, _causes, _STALE, inputs.snapshot, index)
    return np.where(old, causes, readings)


_RttGetter = Callable[[PeerLatency], float | None]


def _all_reports(rtt: _RttGetter, states: Sequence[NodeState]) -> NamedValues:
    """By peer."""
    peers = [_NO_WINDOWS if state.latency is None else state.latency.peers for state in states]
    readings = _readings(list(chain.from_iterable(each.values() for each in peers)), rtt)
    return NamedValues(list(map(len, peers)), chain.from_iterable(peers), readings)


def _readings(windows: Sequence[PeerLatency], rtt: _RttGetter) -> Readings:
    """A window that has replies may lack the statistic."""
    readings = np.array(list(map(rtt, windows)), np.float64)  # None is NaN.
    for at in np.flatnonzero(np.isnan(readings)).tolist():
        readings[at] = UNMEASURED if windows[at].received else NO_REPLY
    return readings


def _causes(states: Iterable[NodeState]) -> Sequence[float]:
    """Why a report of this node does not count, while the node is not fresh."""
    return [_PROVISIONAL if state.heartbeat and state.changed_at is None else _STALE for state in states]


def rtt_getter(statistic: Statistic) -> _RttGetter:
    return attrgetter(f"{statistic}_ms")


def view_row(view: DelayView, reference: str, index: NodeIndex, inputs: DecisionInputs) -> ViewRow:
    direction = inputs.policy.delay.direction
    return inputs.cache.per_object(
        view, (reference, direction, index), lambda: _place_view_row(view, reference, direction, index)
    )


def _place_view_row(view: DelayView, reference: str, direction: Direction, index: NodeIndex) -> ViewRow:
    row = view.row(reference)
    forward = {} if direction is Direction.BACKWARD else row.forward
    backward = {} if direction is Direction.FORWARD else row.backward
    reading, is_backward = _larger(_place(forward, index), _place(backward, index))
    reading[index.mask(row.no_reply) & (reading < 0)] = NO_REPLY
    return ViewRow(reading, is_backward, _beyond([*row.forward, *row.backward, *row.no_reply], index))


def _place(readings: Mapping[str, float], index: NodeIndex) -> Readings:
    return index.place(readings.keys(), list(readings.values()), UNMEASURED)


def estimate_row(estimates: EstimateView, reference: str, index: NodeIndex, inputs: DecisionInputs) -> EstimateRow:
    return inputs.cache.per_object(
        estimates, (reference, index), lambda: _place_estimate_row(estimates, reference, index)
    )


def _place_estimate_row(estimates: EstimateView, reference: str, index: NodeIndex) -> EstimateRow:
    row = estimates.row(reference)
    columns = (row.rtt_ms, row.low_ms, row.high_ms)
    limits = (row.expected_ms, row.lowest_ms)
    expected_ms, lowest_ms = (index.place(row.nodes, each or [0.0] * len(row.nodes), 0.0) for each in limits)
    rtt_ms, low_ms, high_ms = (index.place(row.nodes, column, np.nan) for column in columns)
    sources = sorted(set(row.source))
    codes = np.zeros(len(index) + 1, np.int8)
    codes[index.positions(row.nodes)] = [sources.index(source) for source in row.source]
    return EstimateRow(rtt_ms, low_ms, high_ms, expected_ms, lowest_ms, codes, sources, _beyond(row.nodes, index))


def _beyond(nodes: Sequence[str], index: NodeIndex) -> Sequence[str]:
    return [node for node, position in zip(nodes, index.positions(nodes).tolist(), strict=True) if position == ABSENT]
