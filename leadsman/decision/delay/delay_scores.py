"""Scores nodes by delay: the nearest first for pods with delay bounds, cloud nodes first for the others."""

from collections.abc import Mapping, Sequence, Set
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from leadsman.decision.delay.bounds import valid_bounds
from leadsman.decision.delay.evaluation import EvaluatedBound, evaluate_bounds
from leadsman.decision.delay.rtt_table import Outcome, reason
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo
from leadsman.decision.policy import CloudPolicy
from leadsman.decision.view import Column, FloatArray, median
from leadsman.state.snapshot import NodeState

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
        """No say in a pod without a bound to anything. A node is unknown when the RTT of any bound is."""
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
        """Nothing that the delay filter has not told."""
        return Evidence()


def _score(weight: float, nodes: Sequence[str], evaluated: Sequence[EvaluatedBound]) -> PluginScore:
    values, causes = np.zeros(len(nodes)), np.zeros(len(nodes), np.int64)
    for number, (_, _, evaluation) in enumerate(evaluated):
        at = evaluation.index.positions(nodes)
        lone = evaluation.lone[at]
        rtt_ms = np.where(lone, np.nan, evaluation.rtt_ms[at])  # Who alone says that it is near would win.
        values += _values(rtt_ms) / len(evaluated)
        missing = np.isnan(rtt_ms)
        causes[missing] = _CODES * number + np.where(lone, _LONE, -evaluation.reading[at])[missing].astype(np.int64)
    known = ~np.isnan(values)
    if known.all():
        return PluginScore(NEAREST, weight, Column(nodes, values))
    unknown = _reasons(nodes, np.where(known, 0, causes), evaluated)
    return PluginScore(NEAREST, weight, Column(list(compress(nodes, known.tolist())), values[known]), unknown)


_LONE = len(Outcome)
_CODES = len(Outcome) + 1


def _reasons(nodes: Sequence[str], causes: NDArray[np.int64], evaluated: Sequence[EvaluatedBound]) -> Mapping[str, str]:
    """causes: of each node the last bound that has no round trip there, and _LONE or the Outcome that says why; 0:
    none."""
    reasons = dict[int, str]()
    for cause in np.flatnonzero(np.bincount(causes)).tolist():
        bound, target, _ = evaluated[cause // _CODES]
        code = cause % _CODES
        lone = f"only one end reports the delay to {target.name}, and nobody confirms it"
        reasons[cause] = lone if code == _LONE else reason(Outcome(code), target.name, bound.ms)
    unknown = causes > 0
    return dict(zip(compress(nodes, unknown.tolist()), map(reasons.__getitem__, causes[unknown].tolist()), strict=True))


def _values(rtt_ms: FloatArray) -> FloatArray:
    known = rtt_ms[~np.isnan(rtt_ms)]
    square = max(median(known), MIN_MEDIAN_MS) ** 2 if len(known) else 1.0
    return square / (square + rtt_ms**2)


# Cloud nodes first, for pods that no delay bound ties to a place: the edge stays free for those that need it.
#
# A cloud node is labelled kubernetes.io/role=cloud, or the policy names it or its zone. Whether a pod still fits
# there is the scheduler's business.

CLOUD = "cloud"

CLOUD_ROLE = "cloud"


class CloudScore:
    name = CLOUD

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        """No say in a pod with bounds, nor where no candidate is a cloud node."""
        settings = inputs.policy.scores.cloud
        if not settings.weight or pod.has_delay_bounds:
            return None
        found = _cloud_nodes(nodes, settings, inputs)
        if not found:
            return None
        return PluginScore(CLOUD, settings.weight, Column(nodes, [1.0 if node in found else 0.0 for node in nodes]))

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Nothing that the values do not tell."""
        return Evidence()


def _cloud_nodes(nodes: Sequence[str], settings: CloudPolicy, inputs: DecisionInputs) -> Set[str]:
    found = {node for node in nodes if inputs.node_roles.get(node) == CLOUD_ROLE} if inputs.node_roles else set[str]()
    if settings.nodes:
        found.update(compress(nodes, map(partial(_matches, settings.nodes), nodes)))
    if settings.zones:
        view = inputs.view()
        zoned = view.column((CLOUD, settings.zones), partial(_are_in_zone, settings.zones), 0.0)
        found.update(compress(nodes, zoned[view.index.positions(nodes)]))
    return found


def _are_in_zone(patterns: tuple[str, ...], states: Sequence[NodeState]) -> Sequence[bool]:
    return [state.identity is not None and _matches(patterns, state.identity.zone) for state in states]


@lru_cache(maxsize=16_384)
def _matches(patterns: tuple[str, ...], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
