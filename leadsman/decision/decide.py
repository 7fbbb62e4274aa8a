"""judge refuses nodes, rank scores those that are left, decide does both.

kube-scheduler asks for the two halves in two calls (/filter, /prioritize), so each stands alone. What a
plugin raises is its fault and passes through.
"""

from collections.abc import Mapping, Sequence
from itertools import filterfalse
from typing import NamedTuple

import numpy as np
from msgspec import structs

from leadsman.decision.columns import Column, FloatArray
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes, Decision, PluginScore, PodInfo, Refusal
from leadsman.decision.plugins import FILTERS, SCORES, FilterPlugin, ScorePlugin

MAX_SCORE = 10
"""kube-scheduler's MaxExtenderPriority."""

NEUTRAL_SCORE = MAX_SCORE // 2

MIN_KNOWN_RATIO = 0.5
"""A score that knows fewer of the candidates says nothing: the rest would all be guessed."""


class FilterResult(NamedTuple):
    kept: tuple[str, ...]
    refused: Mapping[str, Refusal]


class ScoreResult(NamedTuple):
    plugin_scores: tuple[PluginScore, ...]
    scores: Mapping[str, int]
    neutral: str


def decide(pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Decision:
    """Nodes asked about twice count once."""
    kept, refused = filter_nodes(pod, nodes, inputs)
    parts, scores, neutral = score_nodes(pod, kept, inputs)
    return Decision(pod, kept, refused, parts, scores, neutral)


def filter_nodes(
    pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs, filters: Sequence[FilterPlugin] = FILTERS
) -> FilterResult:
    """Which nodes may take the pod, in the order asked, and why the others may not."""
    kept, refused = CandidateNodes.of(nodes), dict[str, Refusal]()
    for each in filters:
        refusals = each.refusals(pod, kept, inputs)
        if refusals:
            refused.update(refusals)
            kept = CandidateNodes(filterfalse(refusals.__contains__, kept))
    return FilterResult(kept, refused)


def score_nodes(
    pod: PodInfo, kept: Sequence[str], inputs: DecisionInputs, scores: Sequence[ScorePlugin] = SCORES
) -> ScoreResult:
    """How good each of the nodes is for the pod. All equal, with the reason, when nothing can be said."""
    nodes = CandidateNodes.of(kept)
    parts = tuple(
        _neutral_if_unknown(part, nodes) for each in scores if (part := each.score(pod, nodes, inputs)) is not None
    )
    heard = counted_scores(parts)
    if not heard:
        neutral = "; ".join(part.neutral for part in parts) or "no score has a say in this pod"
        return ScoreResult(parts, dict.fromkeys(nodes, NEUTRAL_SCORE), neutral)
    rounded = np.floor(MAX_SCORE * weighted_totals(heard, nodes) + 0.5).astype(np.int64)
    return ScoreResult(parts, dict(zip(nodes, rounded.tolist(), strict=True)), "")


def counted_scores(parts: Sequence[PluginScore]) -> list[PluginScore]:
    """The parts that count."""
    return [part for part in parts if part.weight and not part.neutral]


def weighted_totals(heard: Sequence[PluginScore], nodes: Sequence[str]) -> FloatArray:
    """The weighted mean of the parts, 0..1, for each node. ValueError when a part's value is no number."""
    weights = sum(part.weight for part in heard)
    sums = sum((part.weight / weights * plugin_values(part, nodes) for part in heard), np.zeros(len(nodes)))
    if not np.isfinite(sums).all():
        raise ValueError("a score is not a number")
    return sums


def plugin_values(part: PluginScore, nodes: Sequence[str]) -> FloatArray:
    """The part's value for each node, held to 0..1. An unknown one is the median: never best, never worst."""
    known = Column.of(part.values)
    middle = float(np.median(known.numbers)) if 0 < len(known) < len(nodes) else 0.0
    return np.clip(known.values_for(nodes, middle), 0.0, 1.0)


def _neutral_if_unknown(part: PluginScore, nodes: Sequence[str]) -> PluginScore:
    """The part, marked neutral when it knows too few of the nodes."""
    if len(part.values) >= MIN_KNOWN_RATIO * len(nodes):
        return part
    few = f"{part.plugin}: fresh data of {len(part.values)} of {len(nodes)} nodes, fewer than half"
    return structs.replace(part, neutral=few)
