"""Nearest first, among the nodes that keep a pod's delay bounds.

RTTs spread over powers of ten, so the scale is relative: 1 at 0 ms, 1/2 at the candidates' median, 1/5 at
twice that, x → 1 / (1 + (x / median)²). The steepest part lies where most candidates are, a far outlier or
a liar does not move it, and a lower RTT of a node never lowers its own value. Of each bound the pair that decides on it
counts, measured or estimated; of several bounds the mean.
"""

from collections.abc import Sequence
from itertools import compress

import numpy as np

from leadsman.decision.columns import Column, FloatArray
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
        values, unknown = np.zeros(len(nodes)), dict[str, str]()
        for bound, target, evaluation in evaluated:
            at = inputs.cache.positions(nodes, evaluation.index)
            rtt_ms = evaluation.rtt_ms[at]
            values += _values(rtt_ms) / len(evaluated)
            missing = np.isnan(rtt_ms)
            causes = (-evaluation.reading[at][missing]).tolist()
            reasons = {cause: reason(Outcome(int(cause)), target.name, bound.ms) for cause in set(causes)}
            unknown.update(zip(compress(nodes, missing.tolist()), map(reasons.__getitem__, causes), strict=True))
        if not unknown:
            return PluginScore(NAME, weight, Column(nodes, values))
        known = ~np.isnan(values)
        return PluginScore(NAME, weight, Column(list(compress(nodes, known.tolist())), values[known]), unknown)

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Nothing that the delay filter has not told."""
        return Evidence()


def _values(rtt_ms: FloatArray) -> FloatArray:
    known = rtt_ms[~np.isnan(rtt_ms)]
    square = max(float(np.median(known)), MIN_MEDIAN_MS) ** 2 if len(known) else 1.0
    return square / (square + rtt_ms**2)
