"""Nearest first, among the nodes that keep a pod's delay bounds.

RTTs spread over powers of ten, so the scale is relative: 1 at 0 ms, 1/2 at the candidates' median, 1/5 at
twice that, x → 1 / (1 + (x / median)²). The steepest part lies where most candidates are, a far outlier or
a liar does not move it, and a lower RTT of a node never lowers its own value. Of each bound the pair that decides on it
counts, measured or estimated; of several bounds the mean.
"""

from collections.abc import Mapping, Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from leadsman.decision.cache import DecisionCache
from leadsman.decision.columns import Column, FloatArray, median
from leadsman.decision.delay.bounds import valid_bounds
from leadsman.decision.delay.evaluation import EvaluatedBound, evaluate_bounds
from leadsman.decision.delay.outcomes import Outcome, reason
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo

NAME = "nearest"

MIN_MEDIAN_MS = 0.05
"""The least median: below it differences are noise of the measurement."""


class NearestScore:
    name = NAME

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        """No say in a pod without a bound to anything. A node is unknown when the RTT of any bound is."""
        weight = inputs.policy.scores.nearest.weight
        bounds = valid_bounds(pod) if weight else ()
        evaluated = [each for each in evaluate_bounds(bounds, pod, nodes, inputs) if isinstance(each, EvaluatedBound)]
        if not evaluated:
            return None
        key = (NAME, weight, *((each.bound, each.target.name) for each in evaluated))
        objects = (nodes, *(each.evaluation for each in evaluated))
        return inputs.cache.per_objects(key, objects, lambda: _score(weight, nodes, evaluated, inputs.cache))

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Nothing that the delay filter has not told."""
        return Evidence()


def _score(
    weight: float, nodes: Sequence[str], evaluated: Sequence[EvaluatedBound], cache: DecisionCache
) -> PluginScore:
    values, causes = np.zeros(len(nodes)), np.zeros(len(nodes), np.int64)
    for number, (_, _, evaluation) in enumerate(evaluated):
        at = cache.positions(nodes, evaluation.index)
        rtt_ms = evaluation.rtt_ms[at]
        values += _values(rtt_ms) / len(evaluated)
        missing = np.isnan(rtt_ms)
        causes[missing] = _CODES * number - evaluation.reading[at][missing].astype(np.int64)
    known = ~np.isnan(values)
    if known.all():
        return PluginScore(NAME, weight, Column(nodes, values))
    unknown = _reasons(nodes, np.where(known, 0, causes), evaluated)
    return PluginScore(NAME, weight, Column(list(compress(nodes, known.tolist())), values[known]), unknown)


_CODES = len(Outcome)


def _reasons(nodes: Sequence[str], causes: NDArray[np.int64], evaluated: Sequence[EvaluatedBound]) -> Mapping[str, str]:
    """causes: of each node the last bound that has no round trip there, and the Outcome that says why; 0: none."""
    reasons = dict[int, str]()
    for cause in np.flatnonzero(np.bincount(causes)).tolist():
        bound, target, _ = evaluated[cause // _CODES]
        reasons[cause] = reason(Outcome(cause % _CODES), target.name, bound.ms)
    unknown = causes > 0
    return dict(zip(compress(nodes, unknown.tolist()), map(reasons.__getitem__, causes[unknown].tolist()), strict=True))


def _values(rtt_ms: FloatArray) -> FloatArray:
    known = rtt_ms[~np.isnan(rtt_ms)]
    square = max(median(known), MIN_MEDIAN_MS) ** 2 if len(known) else 1.0
    return square / (square + rtt_ms**2)
