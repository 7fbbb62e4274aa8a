"""Tells what earlier measurements say of pairs that are not measured now: their value then, and an interval around it.

Agents replace some of their peers all the time, so most pairs that were measured an hour ago are not measured now. How
far a value may be off is seen on the pairs that were measured then and are measured now:

- how a direction has changed, on pairs of which as many directions were measured then as now;
- how far a value of one direction may be from both, on pairs of which one direction was measured then and both now.
  Agents measure nine of ten pairs in one direction. Where two directions differ, this counts for more than age.

A pair measured in one direction gets the wider of both intervals. The ends are linear in the value then, by quantile
regression: an unusually low value is often followed by a higher one, and bounds accept low values. An older set of
measurements never has the narrower interval.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leadsman.network.calibration import COVERAGE, regress_upper_end
from leadsman.network.measured_pairs import Floats, Indices, MeasuredPairs

_SIDE = (1 - COVERAGE) / 2
MAX_COMPARED_PAIRS = 5_000
"""Pairs then and now on which an end is fitted: 250 of them are beyond it, and more say the same."""
MAX_FORMER_PAIRS = 40_000
"""No older measurements are added beyond these: a fit's steps are shared among all pairs."""


class FormerPairs(NamedTuple):
    """Pairs that are not measured now, as they were last measured. low, high: logarithms of each pair's interval."""

    pairs: MeasuredPairs
    low: Floats
    high: Floats


class _IntervalEnds(NamedTuple):
    """Weights of 1 and the logarithm then: of the negative low end, and of the high end. Infinite: too few pairs."""

    negative_low: Floats
    high: Floats


class _UsualChanges(NamedTuple):
    """Says where delays are now that were once measured at one moment. changed: the directions that were measured.
    both: both directions, where one was measured."""

    changed: _IntervalEnds
    both: _IntervalEnds

    def interval(self, then: MeasuredPairs) -> tuple[Floats, Floats]:
        """Returns the logarithms of the ends for pairs of that moment; of one direction the wider interval."""
        one_way = np.isnan(then.half_skew)
        faster, slower = _features(then.faster_log_ms), _features(then.slower_log_ms)
        low, high = -(faster @ self.changed.negative_low), slower @ self.changed.high
        low = np.where(one_way, np.minimum(low, -(faster @ self.both.negative_low)), low)
        high = np.where(one_way, np.maximum(high, slower @ self.both.high), high)
        return np.minimum(low, then.log_ms), np.maximum(high, then.log_ms)


def former_pairs(earlier: Sequence[MeasuredPairs], now: MeasuredPairs) -> FormerPairs:
    """Returns the pairs that only `earlier` measurements of the same nodes have, the newest of which counts; the newest
    set is first."""
    found, known = no_former_pairs(now.node_count), now
    usual: list[_UsualChanges] = []
    for pairs in earlier:
        if len(found.low) >= MAX_FORMER_PAIRS:
            break
        usual.append(_usual_changes(pairs, now))
        gone = pairs.where(~known.find_pairs(pairs.first, pairs.second)[1])
        low, high = zip(*(each.interval(gone) for each in usual), strict=True)
        found = _joined(found, FormerPairs(gone, np.min(low, 0), np.max(high, 0)))
        known = known.union(gone)
    return found


def no_former_pairs(nodes: int) -> FormerPairs:
    """Returns the empty result, as before the second measurement."""
    nothing, nobody = np.zeros(0, np.float32), np.zeros(0, np.intp)
    return FormerPairs(MeasuredPairs(nodes, nobody, nobody, nothing, nothing), nothing, nothing)


def _usual_changes(earlier: MeasuredPairs, now: MeasuredPairs) -> _UsualChanges:
    slot, common = now.find_pairs(earlier.first, earlier.second)
    then, later = earlier.where(common), now.at(slot[common])
    one_way_then, one_way_now = np.isnan(then.half_skew), np.isnan(later.half_skew)
    alike, joined = (_thinned(of) for of in (one_way_then == one_way_now, one_way_then & ~one_way_now))
    return _UsualChanges(_changed(then.at(alike), later.at(alike)), _both_directions(then.at(joined), later.at(joined)))


def _thinned(mask: NDArray[np.bool_]) -> Indices:
    found = np.flatnonzero(mask)
    return found[:: len(found) // MAX_COMPARED_PAIRS + 1]


def _changed(then: MeasuredPairs, later: MeasuredPairs) -> _IntervalEnds:
    """The faster direction is below in 1 of 20 pairs, the slower one above in 1 of 20."""
    low = regress_upper_end(_features(then.faster_log_ms), -later.faster_log_ms, _SIDE)
    return _IntervalEnds(low, regress_upper_end(_features(then.slower_log_ms), later.slower_log_ms, _SIDE))


def _both_directions(then: MeasuredPairs, later: MeasuredPairs) -> _IntervalEnds:
    """1 of 20 directions is below, the slower one is above in 1 of 20 pairs."""
    features = _features(then.log_ms)
    pair, log_ms = later.directions
    low = regress_upper_end(features[pair], -log_ms, _SIDE)
    return _IntervalEnds(low, regress_upper_end(features, later.slower_log_ms, _SIDE))


def _features(log_ms: Floats) -> Floats:
    return np.stack([np.ones(len(log_ms)), log_ms], -1)


def _joined(one: FormerPairs, other: FormerPairs) -> FormerPairs:
    order: Indices = np.argsort(np.concatenate([one.pairs.keys, other.pairs.keys]), kind="stable")
    low, high = (np.concatenate(each)[order] for each in ((one.low, other.low), (one.high, other.high)))
    return FormerPairs(one.pairs.union(other.pairs), low, high)
