"""Selects node pairs to measure because a decision turns on them.

Of the nodes that nothing else rules out, the pairs that nobody measured and whose bound the estimate does not settle
against: measured, the node would pass or fail for sure. A pair that one end alone measured, and as less than counts by
what other nodes report, is for the other end to measure. A pair whose probes were all lost is not asked for again, and
of a node from which nothing fresh comes there is nobody to ask.
"""

from collections.abc import Iterator, Sequence
from itertools import compress

import numpy as np

from leadsman.decision.delay import rtt_table
from leadsman.decision.delay.bounds import NoTarget, valid_bounds
from leadsman.decision.delay.evaluation import EvaluatedBound, evaluate_bounds, pair_rows
from leadsman.decision.delay.rtt_table import Outcome
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.view import FloatArray

MAX_PROBE_PAIRS = 16
"""Pairs that one decision asks for: as many as a node has peers."""

_UNDECIDED = [
    Outcome.PASSES,
    Outcome.ACCEPTED_UNKNOWN,
    Outcome.UNMEASURED,
    Outcome.IMPLAUSIBLE,
    Outcome.ESTIMATE_UNSURE,
]


_Pair = tuple[float, str, str, bool]
"""Round trip in ms, node, reference, and whether the reference should measure. Pairs sort in the order in which
measuring pays: the nearest is the likeliest to pass; without an estimate last."""


def select_probe_pairs(
    pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs, most: int = MAX_PROBE_PAIRS
) -> tuple[tuple[str, str], ...]:
    """Selects at most `most` pairs of who should measure and whom, the nearest first by estimate. The candidate
    measures, unless its own measurement is not believed."""
    evaluated = evaluate_bounds(valid_bounds(pod), pod, nodes, inputs)
    to_targets = [each for each in evaluated if not isinstance(each, NoTarget)]
    if len(to_targets) < len(evaluated):
        return ()
    undecided = _undecided(to_targets, sorted(nodes), inputs)
    pairs = {pair for each in to_targets for pair in _unmeasured(each, undecided, most, inputs)}
    probes = ((to, node) if by_reference else (node, to) for _, node, to, by_reference in sorted(pairs))
    return tuple(dict.fromkeys(probes))[:most]


def _undecided(bounds: Sequence[EvaluatedBound], nodes: Sequence[str], inputs: DecisionInputs) -> list[str]:
    """Returns those that somebody vouches for and no bound rules out."""
    undecided = np.ones(len(nodes), np.bool_)
    for each in bounds:
        evaluation = each.evaluation
        view = evaluation.view
        at, live = view.index.positions(nodes), rtt_table.live_mask(view, inputs)
        open_nodes = np.isin(evaluation.outcome, _UNDECIDED)
        for number, row in enumerate(pair_rows(each, inputs)):
            open_nodes |= (evaluation.decides == number) & row.measured.doubted
        undecided &= live[at] & open_nodes[at]
    return list(compress(nodes, undecided.tolist()))


def _unmeasured(each: EvaluatedBound, nodes: Sequence[str], most: int, inputs: DecisionInputs) -> Iterator[_Pair]:
    """Yields the pairs with live references that nobody measured, or one end alone as less than counts, and whose
    estimate may be within the bound; of each reference the `most` nearest. nodes: by name, which decides between equal
    ones."""
    view = each.evaluation.view
    index, live = view.index, rtt_table.live_mask(view, inputs)
    at = index.positions(nodes)
    for row in pair_rows(each, inputs):
        if live[index.position(row.reference)]:
            doubted = row.measured.doubted & ((row.outcome != Outcome.PASSES) | (row.measured.reading < 0))
            by_reference = doubted & row.measured.backward
            unmeasured = (row.measured.reading == rtt_table.UNMEASURED) | doubted
            if row.estimated is not None:
                unmeasured &= ~(row.estimated.low_ms > each.bound.ms)
            open_at = at[unmeasured[at]]
            rtt_ms = np.nan_to_num(row.rtt_ms[open_at], nan=np.inf)
            for place in _smallest(rtt_ms, most):
                position = open_at[place]
                yield float(rtt_ms[place]), index.nodes[position], row.reference, bool(by_reference[position])


def _smallest(values: FloatArray, most: int) -> list[int]:
    """Returns the places of the `most` smallest; of equal ones the first."""
    if len(values) <= most:
        return list(range(len(values)))
    largest = np.partition(values, most - 1)[most - 1]
    smaller, equal = np.flatnonzero(values < largest).tolist(), np.flatnonzero(values == largest).tolist()
    return [*smaller, *equal[: most - len(smaller)]]
