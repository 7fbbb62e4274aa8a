"""Filters nodes (`filter_nodes`), scores those that are left (`score_nodes`), or does both (`decide`).

kube-scheduler makes the two halves two calls (/filter, /prioritize), so each can be called alone. What a plugin raises
passes through.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import filterfalse
from typing import NamedTuple, Protocol

import numpy as np
from msgspec import structs

from leadsman.decision.delay.delay_plugins import CloudScore, DelayFilter, NearestScore
from leadsman.decision.devices.device_filter import DeviceFilter
from leadsman.decision.devices.device_scores import FitScore, GainScore
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes, Decision, Evidence, PluginScore, PodInfo, Refusal
from leadsman.decision.pressure_score import PressureScore
from leadsman.decision.rewards.rewards_score import BreakerFilter, RewardsScore
from leadsman.decision.self_healing import HealingFilter
from leadsman.decision.telemetry.telemetry_plugins import TelemetryFilter, TelemetryScore
from leadsman.decision.view import Column, FloatArray, median
from leadsman.kube.names import POLICY_LABEL

# Defines what a plugin is, and lists all filters and scores in the order they are called.
#
# A new plugin is one small file and one line here. A plugin gets all nodes at once, because a Python call for each of
# 5,000 nodes costs more than the decision itself.


class FilterPlugin(Protocol):
    """Decides which nodes may not take the pod, and why."""

    name: str

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        """Maps each node that may not take the pod to why; nodes that pass are absent."""

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Returns what the refusals are based on."""


class ScorePlugin(Protocol):
    """Decides how good each node is for the pod."""

    name: str

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        """Returns the score of each node; None: the plugin does not apply to this pod."""

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Returns what the score is based on."""


FILTERS: tuple[FilterPlugin, ...] = (HealingFilter(), DelayFilter(), TelemetryFilter(), DeviceFilter(), BreakerFilter())

SCORES: tuple[ScorePlugin, ...] = (
    NearestScore(),
    CloudScore(),
    PressureScore(),
    TelemetryScore(),
    RewardsScore(),
    FitScore(),
    GainScore(),
)


def _idle(pod: PodInfo, inputs: DecisionInputs) -> set[type]:
    """Returns the plugins that have nothing to say, and are not asked: most pods and clusters use few of them."""
    idle = set[type]()
    if not (inputs.self_healing.refused or inputs.self_healing.holds):
        idle.add(HealingFilter)
    if not inputs.policy.breaker.failures:
        idle.add(BreakerFilter)
    if POLICY_LABEL not in pod.labels:
        idle |= {TelemetryFilter, TelemetryScore}
    if not inputs.devices.followed:
        idle |= {DeviceFilter, FitScore, GainScore}
    return idle


MAX_SCORE = 10
"""kube-scheduler's MaxExtenderPriority."""

NEUTRAL_SCORE = MAX_SCORE // 2

MIN_KNOWN_RATIO = 0.5
"""A score that knows fewer of the candidates is neutral: it would guess the rest."""


class FilterResult(NamedTuple):
    """The candidates that passed the filters, in their order, and those that were refused."""

    kept: tuple[str, ...]
    refused: Mapping[str, Refusal]


class ScoreResult(NamedTuple):
    """Says what each plugin gave, and which scores follow.

    scores: node → 0..10.
    neutral: why all scores are equal; "" when they are not neutral.
    """

    plugin_scores: tuple[PluginScore, ...]
    scores: Mapping[str, int]
    neutral: str


def decide(pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Decision:
    """Filters and scores the candidates. A node that is named twice counts once."""
    kept, refused = filter_nodes(pod, nodes, inputs)
    return Decision(pod, kept, refused, *score_nodes(pod, kept, inputs))


def filter_nodes(
    pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs, filters: Sequence[FilterPlugin] = FILTERS
) -> FilterResult:
    """Says which nodes may take the pod, in the order given, and why the others may not."""
    candidates = nodes if isinstance(nodes, CandidateNodes) else CandidateNodes.of(nodes)
    result, idle = FilterResult(candidates, _NO_REFUSALS), _idle(pod, inputs)
    for each in filters:
        refusals = _NO_REFUSALS if type(each) in idle else each.refusals(pod, result.kept, inputs)
        if refusals:
            result = inputs.view().once("kept", partial(_refuse, result, refusals), *result, refusals)
    return result


_NO_REFUSALS: Mapping[str, Refusal] = {}


def _refuse(before: FilterResult, refusals: Mapping[str, Refusal]) -> FilterResult:
    kept = CandidateNodes(filterfalse(refusals.__contains__, before.kept))
    return FilterResult(kept, {**before.refused, **refusals} if before.refused else refusals)


def score_nodes(
    pod: PodInfo, kept: Sequence[str], inputs: DecisionInputs, scores: Sequence[ScorePlugin] = SCORES
) -> ScoreResult:
    """Scores the nodes for the pod; all get the same, with the reason, when no plugin's score counts."""
    nodes, idle = CandidateNodes.of(kept), _idle(pod, inputs)
    plugin_scores = tuple(
        _neutral_if_unknown(score, nodes, inputs)
        for each in scores
        if type(each) not in idle and (score := each.score(pod, nodes, inputs)) is not None
    )
    return inputs.view().once("scores", lambda: _total(nodes, plugin_scores), nodes, *plugin_scores)


def _total(nodes: CandidateNodes, plugin_scores: tuple[PluginScore, ...]) -> ScoreResult:
    counted = counted_scores(plugin_scores)
    if not counted:
        neutral = "; ".join(score.neutral for score in plugin_scores) or "no score plugin applies to this pod"
        return ScoreResult(plugin_scores, dict.fromkeys(nodes, NEUTRAL_SCORE), neutral)
    rounded = np.floor(MAX_SCORE * weighted_totals(counted, nodes) + 0.5).astype(np.int64)
    return ScoreResult(plugin_scores, dict(zip(nodes, rounded.tolist(), strict=True)), "")


def counted_scores(plugin_scores: Sequence[PluginScore]) -> list[PluginScore]:
    """Returns the plugin scores that have a weight and are not neutral."""
    return [score for score in plugin_scores if score.weight and not score.neutral]


def weighted_totals(counted: Sequence[PluginScore], nodes: Sequence[str]) -> FloatArray:
    """Returns each node's weighted mean of the plugin scores, 0..1. Raises ValueError when a value is not a number."""
    weights = sum(score.weight for score in counted)
    sums = sum((score.weight / weights * plugin_values(score, nodes) for score in counted), np.zeros(len(nodes)))
    if not np.isfinite(sums).all():
        raise ValueError("a plugin's score is not a number")
    return sums


def plugin_values(score: PluginScore, nodes: Sequence[str]) -> FloatArray:
    """Returns the plugin's value of each node, within 0..1; an unknown one is the median: never best, never worst."""
    known = Column.of(score.values)
    middle = median(known.numbers) if 0 < len(known) < len(nodes) else 0.0
    return np.clip(known.values_for(nodes, middle), 0.0, 1.0)


def _neutral_if_unknown(score: PluginScore, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore:
    """Returns the score, marked neutral when it knows too few of the nodes."""
    fresh = len(score.values)
    if score.neutral or fresh >= MIN_KNOWN_RATIO * len(nodes):
        return score
    few = f"{score.plugin}: only {fresh} of {len(nodes)} nodes have fresh data; at least half are needed"
    return inputs.view().once("neutral", lambda: structs.replace(score, neutral=few), score, nodes)
