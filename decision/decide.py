"""judge refuses nodes, rank scores those that are left, decide does both.

kube-scheduler asks for the two halves in two calls (/filter, /prioritize), so each stands alone. What a
plugin raises is its fault and passes through.
"""

from collections.abc import Mapping, Sequence
from itertools import filterfalse
from typing import NamedTuple

import numpy as np
from msgspec import structs

from decision.columns import Column, Numbers
from decision.model import Candidates, Decision, Facts, Filter, Part, Pod, Refusal, Score
from decision.plugins import FILTERS, SCORES

BEST = 10
"""kube-scheduler's MaxExtenderPriority."""

NEUTRAL = BEST // 2

LEAST_KNOWN_RATIO = 0.5
"""A score that knows fewer of the candidates says nothing: the rest would all be guessed."""


class Judged(NamedTuple):
    kept: tuple[str, ...]
    refused: Mapping[str, Refusal]


class Ranked(NamedTuple):
    parts: tuple[Part, ...]
    scores: Mapping[str, int]
    neutral: str


def decide(pod: Pod, nodes: Sequence[str], facts: Facts) -> Decision:
    """Nodes asked about twice count once."""
    kept, refused = judge(pod, nodes, facts)
    parts, scores, neutral = rank(pod, kept, facts)
    return Decision(pod, kept, refused, parts, scores, neutral)


def judge(pod: Pod, nodes: Sequence[str], facts: Facts, filters: Sequence[Filter] = FILTERS) -> Judged:
    """Which nodes may take the pod, in the order asked, and why the others may not."""
    kept, refused = Candidates.of(nodes), dict[str, Refusal]()
    for each in filters:
        refusals = each.refusals(pod, kept, facts)
        if refusals:
            refused.update(refusals)
            kept = Candidates(filterfalse(refusals.__contains__, kept))
    return Judged(kept, refused)


def rank(pod: Pod, kept: Sequence[str], facts: Facts, scores: Sequence[Score] = SCORES) -> Ranked:
    """How good each of the nodes is for the pod. All equal, with the reason, when nothing can be said."""
    nodes = Candidates.of(kept)
    parts = tuple(_marked(part, nodes) for each in scores if (part := each.part(pod, nodes, facts)) is not None)
    heard = speaking(parts)
    if not heard:
        neutral = "; ".join(part.neutral for part in parts) or "no score has a say in this pod"
        return Ranked(parts, dict.fromkeys(nodes, NEUTRAL), neutral)
    rounded = np.floor(BEST * totals(heard, nodes) + 0.5).astype(np.int64)
    return Ranked(parts, dict(zip(nodes, rounded.tolist(), strict=True)), "")


def speaking(parts: Sequence[Part]) -> list[Part]:
    """The parts that count."""
    return [part for part in parts if part.weight and not part.neutral]


def totals(heard: Sequence[Part], nodes: Sequence[str]) -> Numbers:
    """The weighted mean of the parts, 0..1, for each node. ValueError when a part's value is no number."""
    weights = sum(part.weight for part in heard)
    sums = sum((part.weight / weights * column(part, nodes) for part in heard), np.zeros(len(nodes)))
    if not np.isfinite(sums).all():
        raise ValueError("a score is not a number")
    return sums


def column(part: Part, nodes: Sequence[str]) -> Numbers:
    """The part's value for each node, held to 0..1. An unknown one is the median: never best, never worst."""
    known = Column.of(part.values)
    middle = float(np.median(known.numbers)) if 0 < len(known) < len(nodes) else 0.0
    return np.clip(known.at(nodes, middle), 0.0, 1.0)


def _marked(part: Part, nodes: Sequence[str]) -> Part:
    """The part, marked neutral when it knows too few of the nodes."""
    if len(part.values) >= LEAST_KNOWN_RATIO * len(nodes):
        return part
    few = f"{part.plugin}: fresh data of {len(part.values)} of {len(nodes)} nodes, fewer than half"
    return structs.replace(part, neutral=few)
