"""Evaluates a bound, in the only place that does: which pair decides for each node, by which round trip, and what
follows.

Each pair of a reference and a node has an outcome. To all replicas of a workload the worst pair decides, to the nearest
the best, by outcome and then by round trip, an unknown one being the longest. The filter, the nearest score, the pairs
to probe and the explanation are read from this one value, so they cannot disagree.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from leadsman.decision.delay import rtt_table
from leadsman.decision.delay.bounds import DelayBound, NoTarget, ReplicaMode, Target, resolve_bounds
from leadsman.decision.delay.rtt_table import EstimateRow, MeasuredRow, Outcome, Readings
from leadsman.decision.inputs import LOST, DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import EstimateMode
from leadsman.decision.view import BoolArray, CodeArray, FloatArray, NodeIndex, View


class PairRow(Struct, frozen=True):
    """Says how one reference stands to every node of an index, under one bound.

    outcome: of each pair.
    rtt_ms: measured, else estimated, also where the estimate may not count; NaN where neither is known, and where
    probes were lost: then an estimate says nothing.
    """

    reference: str
    outcome: CodeArray
    rtt_ms: FloatArray
    measured: MeasuredRow
    estimated: EstimateRow | None


class Evaluation(Struct, frozen=True):
    """Says how all nodes of a view's index stand to one bound.

    decides: the place in the target's nodes of the reference whose pair decides for the node.
    outcome, rtt_ms: of that pair.
    reading, lone: of that pair, as in MeasuredRow.
    """

    view: View
    decides: CodeArray
    outcome: CodeArray
    rtt_ms: FloatArray
    reading: Readings
    lone: BoolArray

    @property
    def index(self) -> NodeIndex:
        return self.view.index


class EvaluatedBound(NamedTuple):
    bound: DelayBound
    target: Target
    evaluation: Evaluation


def why_refused(outcome: Outcome, target: Target, bound: DelayBound) -> str:
    """Words an outcome alike for every node, as kube-scheduler counts equal reasons. "" when the node passes."""
    if outcome is Outcome.UNMEASURED and LOST in target.nodes:
        return f"{target.name} falls too, without a backup"
    return rtt_table.reason(outcome, target.name, bound.ms)


def evaluate_bounds(
    bounds: Sequence[DelayBound], pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs
) -> list[EvaluatedBound | NoTarget]:
    """Resolves the bounds and evaluates each that has a target."""
    return [
        each if isinstance(each, NoTarget) else EvaluatedBound(*each, evaluate(*each, inputs))
        for each in resolve_bounds(bounds, pod, nodes, inputs)
    ]


def evaluate(bound: DelayBound, target: Target, inputs: DecisionInputs) -> Evaluation:
    """Evaluates a bound for all nodes, once while the inputs stay the same. `target` has at least one node."""
    mode = bound.estimate or inputs.policy.delay.estimate
    key = ("bound", target.nodes, target.replicas, bound.ms, mode)
    return inputs.view(target.nodes).once(key, lambda: _evaluate(bound.ms, mode, target, inputs))


def _evaluate(bound_ms: float, mode: EstimateMode, target: Target, inputs: DecisionInputs) -> Evaluation:
    view = rtt_table.view_of(target.nodes, inputs)
    rows = _pair_rows(bound_ms, mode, target, view, inputs)
    first = next(rows)
    decides, outcome = np.zeros(len(view.index) + 1, np.int8), first.outcome
    rtt_ms, reading, lone = first.rtt_ms, first.measured.reading, first.measured.lone
    for number, row in enumerate(rows, 1):
        replaces = _is_worse(row.outcome, row.rtt_ms, outcome, rtt_ms)
        if target.replicas is ReplicaMode.NEAREST:
            replaces = _is_worse(outcome, rtt_ms, row.outcome, row.rtt_ms)
        decides[replaces] = number
        outcome, rtt_ms = np.where(replaces, row.outcome, outcome), np.where(replaces, row.rtt_ms, rtt_ms)
        reading, lone = (
            np.where(replaces, of_row, before)
            for of_row, before in ((row.measured.reading, reading), (row.measured.lone, lone))
        )
    return Evaluation(view, decides, outcome, rtt_ms, reading, lone)


def pair_rows(each: EvaluatedBound, inputs: DecisionInputs) -> list[PairRow]:
    """Returns a row for each node of the target. The few who need them make them again: kept with each evaluation, they
    were most of the memory that bounds take."""
    mode = each.bound.estimate or inputs.policy.delay.estimate
    return list(_pair_rows(each.bound.ms, mode, each.target, each.evaluation.view, inputs))


def _pair_rows(
    bound_ms: float, mode: EstimateMode, target: Target, view: View, inputs: DecisionInputs
) -> Iterator[PairRow]:
    for reference in target.nodes:
        inputs.checkpoint()
        yield _evaluate_pairs(reference, bound_ms, mode, view, inputs)


def _is_worse(outcome: CodeArray, rtt_ms: FloatArray, than: CodeArray, than_ms: FloatArray) -> BoolArray:
    longer = ~np.isnan(than_ms) & ~(rtt_ms <= than_ms)
    worse: BoolArray = (outcome > than) | ((outcome == than) & longer)
    return worse


def _evaluate_pairs(reference: str, bound_ms: float, mode: EstimateMode, view: View, inputs: DecisionInputs) -> PairRow:
    measured = rtt_table.measured_row(reference, view, inputs)
    reading = measured.reading
    unknown = reading < 0
    outcome = np.where(unknown, -reading, (reading > bound_ms) * float(Outcome.MEASURED_OVER)).astype(np.int8)
    rtt_ms = np.where(unknown, np.nan, reading)
    open_pairs = unknown & (reading != rtt_table.NO_REPLY)
    if mode is EstimateMode.ACCEPT:
        outcome[open_pairs] = Outcome.ACCEPTED_UNKNOWN
    if inputs.estimates is None:
        return PairRow(reference, outcome, rtt_ms, measured, None)
    estimated = rtt_table.estimate_row(inputs.estimates, reference, view)
    open_pairs &= ~np.isnan(estimated.rtt_ms)
    if mode is not EstimateMode.REJECT:
        by_estimate = _estimated_outcome(estimated, bound_ms, mode)
        counts = open_pairs
        if mode is EstimateMode.UPPER_BOUND:
            live = rtt_table.live_mask(view, inputs)
            passes_or_is_all = (by_estimate == Outcome.PASSES) | (reading == rtt_table.UNMEASURED)
            counts = open_pairs & live & live[view.index.position(reference)] & passes_or_is_all
        outcome[counts] = by_estimate[counts]
    np.copyto(rtt_ms, estimated.rtt_ms, where=open_pairs)
    return PairRow(reference, outcome, rtt_ms, measured, estimated)


def _estimated_outcome(estimated: EstimateRow, bound_ms: float, mode: EstimateMode) -> CodeArray:
    """Returns what the estimates say by themselves: their upper end keeps the bound, or under `accept` their middle."""
    decisive = estimated.high_ms if mode is EstimateMode.UPPER_BOUND else estimated.rtt_ms
    above = np.where(estimated.low_ms > bound_ms, np.int8(Outcome.ESTIMATE_OVER), np.int8(Outcome.ESTIMATE_UNSURE))
    return np.where(decisive <= bound_ms, np.int8(Outcome.PASSES), above)
