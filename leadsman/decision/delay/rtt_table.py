"""Collects what is known of the round trip between one reference node and every other, before any bound.

Measured: by a fresh agent at either end, else by the first of the other views that says anything about the pair. A
window counts when at least one reply came in it: a lost probe is never a delay. Of the two directions that one source
has, the larger counts; one of which every probe was lost is worse than any value. What one agent alone reports counts
as no less than what other nodes report says of the pair. Of a dead reference that is not measured any more, what was
measured last counts (DecisionInputs.last_round_trips). Beside it, never instead of it: an estimate.

A reading is one number for a pair: the round trip in ms, or minus the Outcome that says why there is none. So of two
round trips the larger reading is the longer one, and of two causes the smaller reading says more.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from leadsman.decision.inputs import DecisionInputs, DelayView, EstimateView
from leadsman.decision.policy import Statistic
from leadsman.decision.view import BoolArray, CodeArray, Column, FloatArray, NodeIndex, View, peer_windows
from leadsman.state.records import PeerLatency
from leadsman.state.snapshot import Freshness, NodeState

# How a node may stand to a bound, the best first, and the reason that each refusal is given.


class Outcome(IntEnum):
    """Says what one pair of nodes means for one bound; of several pairs, the smallest value is the best."""

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
    """Words an outcome for a target of this name; "" when the node passes."""
    return _REASONS.get(outcome, "").format(target, bound_ms)


Readings = FloatArray

UNMEASURED, NO_REPLY = -float(Outcome.UNMEASURED), -float(Outcome.NO_REPLY)
IMPLAUSIBLE = -float(Outcome.IMPLAUSIBLE)
_PROVISIONAL, _STALE = -float(Outcome.PROVISIONAL), -float(Outcome.STALE)

BEFORE_FAILURE, BY_AGENTS, FIRST_VIEW = -1, 0, 1
"""MeasuredRow.source; the number of a view is FIRST_VIEW + its place in DecisionInputs.delay_views."""


class MeasuredRow(Struct, frozen=True):
    """Says what was measured between a reference and each node of an index; the reference itself is at 0 ms.

    reading: the round trip, or why there is none: UNMEASURED, PROVISIONAL, STALE, IMPLAUSIBLE or NO_REPLY.
    source: who measured it; says nothing where there is no round trip.
    backward: whether it is the other node's measurement, and not the reference's; also of an implausible one.
    doubted: one agent alone reports less than what other nodes report says; so it is implausible, or counts as that.
    lone: one agent alone reports it, and nothing that others report confirms it.
    """

    reading: Readings
    source: CodeArray
    backward: BoolArray
    doubted: BoolArray
    lone: BoolArray


class ViewRow(NamedTuple):
    """The round trips of one source between a reference and every node of an index. beyond: nodes that the index does
    not have."""

    reading: Readings
    backward: BoolArray
    beyond: Sequence[str]


class EstimateRow(Struct, frozen=True):
    """Says what is estimated between a reference and each node of an index; NaN: nothing. It does not say that a node
    is reachable.

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


def view_of(references: tuple[str, ...], inputs: DecisionInputs) -> View:
    """Returns a view whose index has these references and all nodes to which anything is known from them."""
    peers = (peer_windows(inputs.snapshot.nodes.get(reference)) for reference in references)
    names = [*references, *chain.from_iterable(peers)]
    view, beyond = inputs.view(names), list[str]()
    for reference in references:
        for other in inputs.delay_views:
            beyond += _view_row(other, reference, view).beyond
        if inputs.estimates is not None:
            beyond += estimate_row(inputs.estimates, reference, view).beyond
    return inputs.view([*names, *beyond]) if beyond else view


def live_mask(view: View, inputs: DecisionInputs) -> BoolArray:
    """Tells which nodes somebody vouches for now: an agent's fresh heartbeat, or another source that is fresh. An
    estimate counts only between two of them: nobody knows whether a silent node can be reached at all."""

    def find() -> BoolArray:
        fresh = [each for each in inputs.delay_views if inputs.now < each.fresh_until]
        live = view.fresh
        for each in fresh:
            live = live | view.lasting.once(("nodes",), partial(view.index.mask, each.nodes), each, view.index)
        return live

    return view.once("live", find)


def measured_row(reference: str, view: View, inputs: DecisionInputs) -> MeasuredRow:
    """Returns what was measured between the reference, which is in the view's index, and each node."""
    index = view.index
    forward, backward = _forward_readings(reference, view, inputs), _backward_readings(reference, view, inputs)
    reading, is_backward = _larger(forward, backward)
    doubted = np.zeros(len(index) + 1, np.bool_)
    lone = ((forward < 0) | (backward < 0)) & (reading >= 0)
    if inputs.estimates is not None:
        others = estimate_row(inputs.estimates, reference, view)
        doubted = lone & (reading < others.expected_ms)
        lone &= others.expected_ms == 0
        reading[doubted] = np.where(reading < others.lowest_ms, IMPLAUSIBLE, others.expected_ms)[doubted]
    source = np.zeros(len(index) + 1, np.int8)
    for number, other in enumerate(inputs.delay_views, FIRST_VIEW):
        if inputs.now < other.fresh_until:
            row = _view_row(other, reference, view)
            adds = (reading < 0) & (reading != NO_REPLY) & (row.reading != UNMEASURED)
            reading[adds], source[adds], is_backward[adds] = row.reading[adds], number, row.backward[adds]
            lone &= row.reading < 0
    if last := inputs.last_round_trips.get(reference):
        before = _place(last.rtt_ms, index)
        # Of a dead node only the other end reports, which alone is doubted: what counted while both did goes before.
        replaces = ((reading < 0) | doubted) & (before != UNMEASURED)
        reading[replaces], source[replaces], doubted[replaces] = before[replaces], BEFORE_FAILURE, False
        lone &= ~replaces
    reading[index.position(reference)] = 0.0
    return MeasuredRow(reading, source, is_backward, doubted, lone)


def _larger(forward: Readings, backward: Readings) -> tuple[Readings, BoolArray]:
    """Returns the longer round trip, else the cause that says more; and whether it is the backward one. A direction of
    which every probe was lost counts, whatever the other one measured. New arrays."""
    longer = np.maximum(forward, backward)
    worse = np.minimum(forward, backward)
    reading = np.where((longer < 0) | (worse == NO_REPLY), worse, longer)
    return reading, backward > forward


def _forward_readings(reference: str, view: View, inputs: DecisionInputs) -> Readings:
    """Returns the round trips that the reference's agent measured."""
    peers = peer_windows(inputs.snapshot.nodes.get(reference))
    readings = _readings(list(peers.values()), inputs.policy.delay.statistic)
    freshness = inputs.freshness_of(reference)
    if freshness is not Freshness.FRESH:
        readings[readings != UNMEASURED] = _PROVISIONAL if freshness is Freshness.PROVISIONAL else _STALE
    return view.index.place(peers, readings, UNMEASURED)


def _backward_readings(reference: str, view: View, inputs: DecisionInputs) -> Readings:
    """Returns the round trips that the other nodes' agents measured."""
    statistic = inputs.policy.delay.statistic

    def reported(states: Sequence[NodeState]) -> Readings:
        windows = [None if state.latency is None else state.latency.peers.get(reference) for state in states]
        readings = np.full(len(windows), UNMEASURED)
        at = [place for place, window in enumerate(windows) if window is not None]
        readings[at] = _readings(list(filter(None, windows)), statistic)
        return readings

    readings = view.column(("window", reference, statistic), reported, UNMEASURED)
    old = ~view.fresh & (readings != UNMEASURED)
    if not old.any():
        return readings

    def causes(states: Sequence[NodeState]) -> Sequence[float]:
        return [_PROVISIONAL if state.heartbeat and state.changed_at is None else _STALE for state in states]

    return np.where(old, view.column("cause", causes, _STALE), readings)


def _readings(windows: Sequence[PeerLatency], statistic: Statistic) -> Readings:
    """Reads the statistic of each window; one that has replies may lack it."""
    readings = np.array(list(map(rtt_getter(statistic), windows)), np.float64)  # None is NaN.
    for at in np.flatnonzero(np.isnan(readings)).tolist():
        readings[at] = UNMEASURED if windows[at].received else NO_REPLY
    return readings


def rtt_getter(statistic: Statistic) -> Callable[[PeerLatency], float | None]:
    return attrgetter(f"{statistic}_ms")


def _view_row(other: DelayView, reference: str, view: View) -> ViewRow:
    def place() -> ViewRow:
        row, index = other.row(reference), view.index
        reading, is_backward = _larger(_place(row.forward, index), _place(row.backward, index))
        reading[index.mask(row.no_reply)] = NO_REPLY
        return ViewRow(reading, is_backward, index.without(chain(row.forward, row.backward, row.no_reply)))

    return view.lasting.once(reference, place, other, view.index)


def _place(readings: Mapping[str, float], index: NodeIndex) -> Readings:
    column = Column.of(readings)
    return index.place(column.nodes, column.numbers, UNMEASURED)


def estimate_row(estimates: EstimateView, reference: str, view: View) -> EstimateRow:
    """Returns the estimates' row of the reference, which is asked for once because it is costly."""

    def place() -> EstimateRow:
        row, index = estimates.row(reference), view.index
        columns = (row.rtt_ms, row.low_ms, row.high_ms)
        limits = (row.expected_ms, row.lowest_ms)
        expected_ms, lowest_ms = (index.place(row.nodes, each or [0.0] * len(row.nodes), 0.0) for each in limits)
        rtt_ms, low_ms, high_ms = (index.place(row.nodes, column, np.nan) for column in columns)
        sources = sorted(set(row.source))
        codes = np.zeros(len(index) + 1, np.int8)
        codes[index.positions(row.nodes)] = [sources.index(source) for source in row.source]
        return EstimateRow(rtt_ms, low_ms, high_ms, expected_ms, lowest_ms, codes, sources, index.without(row.nodes))

    return view.lasting.once(reference, place, estimates, view.index)
