"""Compares how slow, or otherwise costly, pods of a type run on each node with the other nodes.

A node is compared with the median of the other nodes' geometric means, so that no single node, slow or lying, moves
what is usual. Twice the usual cost halves the value, once there are enough observations: n of them count n / (n + 2).
An excess below MIN_EXCESS_RATIO is chance: at run times that differ by 20 %, up to 3 standard deviations of the mean.
"""

from collections.abc import Mapping
from math import exp, log
from statistics import median

from leadsman.state.records import Quality

MIN_SAMPLES = 0.5
MIN_OTHER_NODES = 2
"""A node's quality is compared with at least so many others: with one it is unknown whether that one is fast or this
one slow."""

MIN_EXCESS_RATIO = 1.25
"""Run times of equal nodes differ by some 20 % from pod to pod. Without this, half of the sound nodes are in doubt."""

Qualities = Mapping[str, Quality]


def quality_factors(nodes: Mapping[str, Qualities]) -> dict[str, float]:
    """Maps each node to usual cost / its own, at most 1, the product over all qualities. Nodes at 1 are absent."""
    factors: dict[str, float] = {}
    for name in {name for qualities in nodes.values() for name in qualities}:
        costs = {node: each[name] for node, each in nodes.items() if name in each}
        for node, factor in _factors({node: c for node, c in costs.items() if c.samples >= MIN_SAMPLES}).items():
            factors[node] = factors.get(node, 1.0) * factor
    return factors


def _factors(costs: Mapping[str, Quality]) -> dict[str, float]:
    if len(costs) <= MIN_OTHER_NODES:
        return {}
    ranked = sorted(each.log_cost for each in costs.values())
    excess = {node: each.log_cost - _others_median(ranked, each.log_cost) for node, each in costs.items()}
    confidence = {node: each.samples / (each.samples + 2.0) for node, each in costs.items()}
    weighed = {node: more * confidence[node] for node, more in excess.items()}
    return {node: exp(-more) for node, more in weighed.items() if more > log(MIN_EXCESS_RATIO)}


def _others_median(ranked: list[float], own: float) -> float:
    """Returns the median without the node's own cost."""
    middle = len(ranked) // 2
    if len(ranked) % 2:
        around = ranked[middle - 1 : middle + 2]
        around.remove(own if own in around else ranked[middle - 1] if own < around[0] else ranked[middle + 1])
        return median(around)
    return ranked[middle] if own <= ranked[middle - 1] else ranked[middle - 1]
