"""What earlier measurements say about pairs that are not measured now: their value then, and an interval around it.

Agents replace some of their peers all the time, so most pairs that were measured an hour ago are not measured now. How
far a value may be off is seen on the pairs that were measured then and are measured now: the interval holds 9 of 10 of
their changes, and that of an older measurement is never the narrower one.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from leadsman.network.calibration import COVERAGE
from leadsman.network.measured_pairs import Floats, Indices, MeasuredPairs

_SIDE = (1 - COVERAGE) / 2
MAX_FORMER_PAIRS = 40_000
"""No older measurements are added beyond these: a fit's steps are shared among all pairs."""


class FormerPairs(NamedTuple):
    """Pairs that are not measured now, as they were measured last. low, high: logarithms of each pair's interval."""

    pairs: MeasuredPairs
    low: Floats
    high: Floats


def former_pairs(earlier: Sequence[MeasuredPairs], now: MeasuredPairs) -> FormerPairs:
    """earlier: measurements of the same nodes, the newest first. A pair counts as the newest of them has it."""
    found = no_former_pairs(now.node_count)
    known, low, high = now, 0.0, 0.0
    for pairs in earlier:
        if len(found.low) >= MAX_FORMER_PAIRS:
            break
        change_low, change_high = _usual_changes(pairs, now)
        low, high = min(low, change_low), max(high, change_high)
        gone = pairs.where(~known.find_pairs(pairs.first, pairs.second)[1])
        skew = np.abs(np.nan_to_num(gone.half_skew))
        found = _joined(found, FormerPairs(gone, gone.log_ms - skew + low, gone.log_ms + skew + high))
        known = known.union(gone)
    return found


def no_former_pairs(nodes: int) -> FormerPairs:
    """What there is before the second measurement."""
    nothing, nobody = np.zeros(0, np.float32), np.zeros(0, np.intp)
    return FormerPairs(MeasuredPairs(nodes, nobody, nobody, nothing, nothing), nothing, nothing)


def _usual_changes(earlier: MeasuredPairs, now: MeasuredPairs) -> tuple[float, float]:
    """The change of the faster direction that 1 in 20 are below, and of the slower one that 1 in 20 are above.

    Logarithms; infinite when too few pairs are in both.
    """
    slot, both = now.find_pairs(earlier.first, earlier.second)
    then, later = earlier.where(both), now.at(slot[both])
    outside = int((len(then.log_ms) + 1) * _SIDE)
    if not outside:
        return -np.inf, np.inf
    then_skew, later_skew = (np.abs(np.nan_to_num(each.half_skew)) for each in (then, later))
    faster = np.sort(later.log_ms - later_skew - then.log_ms + then_skew)
    slower = np.sort(later.log_ms + later_skew - then.log_ms - then_skew)
    return float(faster[outside - 1]), float(slower[-outside])


def _joined(one: FormerPairs, other: FormerPairs) -> FormerPairs:
    order: Indices = np.argsort(np.concatenate([one.pairs.keys, other.pairs.keys]), kind="stable")
    low, high = (np.concatenate(each)[order] for each in ((one.low, other.low), (one.high, other.high)))
    return FormerPairs(one.pairs.union(other.pairs), low, high)
