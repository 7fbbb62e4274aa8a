"""judge refuses nodes, rank scores those that are left, decide does both.

kube-scheduler asks for the two halves in two calls (/filter, /prioritize), so each stands alone. What a
plugin raises is its fault and passes through.
"""

from collections.abc import Mapping, Sequence
from math import floor
from operator import add
from statistics import median
from typing import NamedTuple

from msgspec import structs

from decision.columns import Column
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
            kept = Candidates([node for node in kept if node not in refusals])
    return Judged(kept, refused)


def rank(pod: Pod, kept: Sequence[str], facts: Facts, scores: Sequence[Score] = SCORES) -> Ranked:
    """How good each of the nodes is for the pod. All equal, with the reason, when nothing can be said."""
    nodes = Candidates.of(kept)
    parts = tuple(_marked(part, nodes) for each in scores if (part := each.part(pod, nodes, facts)) is not None)
    heard = speaking(parts)
    if not heard:
        neutral = "; ".join(part.neutral for part in parts) or "no score has a say in this pod"
        return Ranked(parts, dict.fromkeys(nodes, NEUTRAL), neutral)
    rounded = map(floor, [BEST * total + 0.5 for total in totals(heard, nodes)])
    return Ranked(parts, dict(zip(nodes, rounded, strict=True)), "")


def speaking(parts: Sequence[Part]) -> list[Part]:
    """The parts that count."""
    return [part for part in parts if part.weight and not part.neutral]


def totals(heard: Sequence[Part], nodes: Sequence[str]) -> Sequence[float]:
    """The weighted mean of the parts, 0..1, for each node."""
    first, *others = (column(part, nodes) for part in heard)
    if not others:
        return first
    weights = sum(part.weight for part in heard)
    shares = [part.weight / weights for part in heard]
    sums = [shares[0] * value for value in first]
    for share, values in zip(shares[1:], others, strict=True):
        sums = list(map(add, sums, [share * value for value in values]))
    return sums


def column(part: Part, nodes: Sequence[str]) -> Sequence[float]:
    """The part's value for each node, held to 0..1. An unknown one is the median: never best, never worst."""
    known = Column.of(part.values)
    middle = median(known.numbers) if len(known) < len(nodes) else 0.0
    found = known.at(nodes, middle)
    within = not found or (min(found) >= 0.0 and max(found) <= 1.0)
    return found if within else [min(1.0, max(0.0, value)) for value in found]


def _marked(part: Part, nodes: Sequence[str]) -> Part:
    """The part, marked neutral when it knows too few of the nodes."""
    if len(part.values) >= LEAST_KNOWN_RATIO * len(nodes):
        return part
    few = f"{part.plugin}: fresh data of {len(part.values)} of {len(nodes)} nodes, fewer than half"
    return structs.replace(part, neutral=few)
