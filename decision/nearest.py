"""Nearest first, among the nodes that keep a pod's delay bounds.

RTTs spread over powers of ten, so the scale is relative: 1 at 0 ms, 1/2 at the candidates' median, 1/5 at
twice that, x → 1 / (1 + (x / median)²). The steepest part lies where most candidates are, a far outlier or
a liar does not move it, and a lower RTT of a node never lowers its own value. Several bounds: the mean.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median

from decision import bounds, pairs
from decision.columns import Column
from decision.delay import REASONS
from decision.model import Evidence, Facts, Part, Pod
from decision.pairs import Cause, Pairs

NAME = "nearest"

FLOOR_MS = 0.05
"""The least median: below it differences are noise of the measurement."""


class NearestScore:
    name = NAME

    def part(self, pod: Pod, nodes: Sequence[str], facts: Facts) -> Part | None:
        weight, wanted = facts.policy.scores.nearest.weight, bounds.readable(pod.labels)
        if not (weight and wanted):
            return None
        found = {bound.reference: pairs.between(bound.reference, nodes, facts) for bound in wanted}
        unknown = {node: why for reference, between in found.items() for node, why in _why(reference, between)}
        return Part(NAME, weight, _mean([_values(between.known) for between in found.values()]), unknown)

    def evidence(self, pod: Pod, nodes: Sequence[str], facts: Facts) -> Evidence:
        """Nothing that the delay filter has not told."""
        return Evidence()


def _why(reference: str, between: Pairs) -> Iterator[tuple[str, str]]:
    by_cause = [REASONS[cause].format(reference) for cause in Cause]
    return ((node, by_cause[cause]) for node, cause in between.unknown.items())


def _values(known: Column) -> Column:
    square = max(median(known.numbers), FLOOR_MS) ** 2 if known else 1.0
    return Column(known.nodes, [square / (square + rtt_ms * rtt_ms) for rtt_ms in known.numbers])


def _mean(values: Sequence[Column]) -> Mapping[str, float]:
    """Only of the nodes that have all."""
    first, *others = values
    if not others:
        return first
    return {node: fmean(each[node] for each in values) for node in first if all(node in other for other in others)}
