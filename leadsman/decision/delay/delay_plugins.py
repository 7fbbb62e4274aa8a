"""Decides by delays: bounds refuse nodes, near nodes score best, and pods without bounds go to the cloud."""

from collections.abc import Mapping, Sequence
from itertools import compress

import numpy as np

from leadsman.decision.delay import explain_delay
from leadsman.decision.delay.bounds import (
    BadBound,
    NoTarget,
    ResolvedBound,
    identity_of,
    parse_bounds,
    resolve_bounds,
    valid_bounds,
)
from leadsman.decision.delay.evaluation import EvaluatedBound, evaluate, evaluate_bounds, why_refused
from leadsman.decision.delay.rtt_table import Outcome
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo, Refusal
from leadsman.decision.view import Column, FloatArray, median

NAME = "delay"


class DelayFilter:
    """Refuses nodes that break a bound; an unknown delay refuses too, unless the policy or the pod accepts it."""

    name = NAME

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        try:
            resolved = resolve_bounds(parse_bounds(pod), pod, nodes, inputs)
        except BadBound as error:
            return dict.fromkeys(nodes, Refusal(NAME, str(error)))
        if not resolved:
            return {}
        # Pods of one workload come one after another, with the same bounds and the same nodes.
        same = (NAME, *identity_of(resolved))
        return inputs.view().once(same, lambda: _refusals(resolved, nodes, inputs), nodes)

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        return explain_delay.delay_evidence(pod, nodes, inputs)


def _refusals(
    resolved: Sequence[ResolvedBound | NoTarget], nodes: Sequence[str], inputs: DecisionInputs
) -> Mapping[str, Refusal]:
    """Returns each refused node's reason. The first bound that refuses a node counts, and once every node is refused
    the others are not evaluated."""
    refused, passing = dict[str, Refusal](), np.ones(len(nodes), np.bool_)
    for each in resolved:
        if not passing.any():
            break
        if isinstance(each, NoTarget):
            refused |= dict.fromkeys(compress(nodes, passing.tolist()), Refusal(NAME, each.reason))
            break
        evaluation = evaluate(*each, inputs)
        outcomes = np.where(passing, evaluation.outcome[evaluation.index.positions(nodes)], np.int8(Outcome.PASSES))
        for outcome in map(Outcome, np.flatnonzero(np.bincount(outcomes)).tolist()):
            if outcome.refuses:
                refusal = Refusal(NAME, why_refused(outcome, each.target, each.bound))
                refused |= dict.fromkeys(compress(nodes, (outcomes == outcome).tolist()), refusal)
        passing &= outcomes <= Outcome.ACCEPTED_UNKNOWN
    return refused


# Nearest first, among the nodes that keep a pod's delay bounds.
#
# RTTs spread over powers of ten, so the scale is relative: 1 at 0 ms, 1/2 at the candidates' median, 1/5 at twice
# that, x → 1 / (1 + (x / median)²). The steepest part lies where most candidates are, a far outlier or a liar does
# not move it, and a lower RTT of a node never lowers its own value. Of each bound the pair that decides on it counts,
# measured or estimated; of several bounds the mean.

NEAREST = "nearest"

MIN_MEDIAN_MS = 0.05
"""The least median: below it differences are noise of the measurement."""


class NearestScore:
    name = NEAREST

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        """Scores nodes by their delay to the bounds' targets; None without one. A node is unknown when any of its
        delays is."""
        weight = inputs.policy.scores.nearest.weight
        bounds = valid_bounds(pod) if weight else ()
        evaluated = [each for each in evaluate_bounds(bounds, pod, nodes, inputs) if isinstance(each, EvaluatedBound)]
        if not evaluated:
            return None
        key = (NEAREST, weight, *((each.bound, each.target.name) for each in evaluated))
        return inputs.view().once(
            key, lambda: _score(weight, nodes, evaluated), nodes, *(each.evaluation for each in evaluated)
        )

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Returns nothing: the delay filter's evidence has it all."""
        return Evidence()


_LONE = len(Outcome)
"""The reason, beside the Outcomes, why a round trip is not taken."""


def _score(weight: float, nodes: Sequence[str], evaluated: Sequence[EvaluatedBound]) -> PluginScore:
    values, unknown = np.zeros(len(nodes)), dict[str, str]()
    for bound, target, evaluation in evaluated:
        at = evaluation.index.positions(nodes)
        lone = evaluation.lone[at]
        rtt_ms = np.where(lone, np.nan, evaluation.rtt_ms[at])  # Who alone says that it is near would win.
        values += _values(rtt_ms) / len(evaluated)
        missing = np.flatnonzero(np.isnan(rtt_ms))
        causes = np.where(lone, _LONE, -evaluation.reading[at])[missing].astype(np.int64)
        for cause in np.flatnonzero(np.bincount(causes)).tolist():
            text = f"only one end reports the delay to {target.name}, and nobody confirms it"
            if cause != _LONE:
                text = why_refused(Outcome(cause), target, bound)
            unknown |= dict.fromkeys(map(nodes.__getitem__, missing[causes == cause].tolist()), text)
    known = ~np.isnan(values)
    if known.all():
        return PluginScore(NEAREST, weight, Column(nodes, values))
    return PluginScore(NEAREST, weight, Column(list(compress(nodes, known.tolist())), values[known]), unknown)


def _values(rtt_ms: FloatArray) -> FloatArray:
    known = rtt_ms[~np.isnan(rtt_ms)]
    square = max(median(known), MIN_MEDIAN_MS) ** 2 if len(known) else 1.0
    return square / (square + rtt_ms**2)


# Cloud nodes first, for pods that no delay bound ties to a place: the edge stays free for those that need it. Whether a
# pod still fits there is the scheduler's business.

CLOUD = CLOUD_ROLE = "cloud"
"""The plugin's name, and the value of the label kubernetes.io/role on a cloud node."""


class CloudScore:
    name = CLOUD

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        """Prefers cloud nodes; None for a pod with bounds, or when no candidate is a cloud node."""
        weight, roles = inputs.policy.scores.cloud.weight, inputs.node_roles
        if not (weight and roles) or pod.has_delay_bounds:
            return None
        found = {node for node in nodes if roles.get(node) == CLOUD_ROLE}
        return PluginScore(CLOUD, weight, Column(nodes, [node in found for node in nodes])) if found else None

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Returns nothing: the values tell it all."""
        return Evidence()
