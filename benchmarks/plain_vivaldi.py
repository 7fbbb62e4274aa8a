"""The baseline of estimates: plain Vivaldi in four dimensions with height (Dabek et al. 2004, figure 5, 5.4)."""

import numpy as np

from leadsman.network.measured_pairs import Floats, Indices, MeasuredPairs

ROUNDS = 4_000
DIMENSIONS = 4
GAIN = 0.25


def vivaldi(
    seen: MeasuredPairs, one: Indices, other: Indices, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """The estimates of the pairs (one[k], other[k]) and their intervals. In each round every node measures one peer."""
    source = np.concatenate([seen.first, seen.second])
    order = np.argsort(source, kind="stable")
    target = np.concatenate([seen.second, seen.first])[order]
    rtt_ms = np.exp(np.concatenate([seen.log_ms, seen.log_ms])[order])
    begin, degree = np.searchsorted(source[order], np.arange(seen.node_count)), np.maximum(seen.degree, 1)
    point = rng.normal(0, 1e-3, (seen.node_count, DIMENSIONS))
    height, error = np.full(seen.node_count, 0.01), np.ones(seen.node_count)
    for _ in range(ROUNDS):
        slot = np.minimum(begin + (rng.random(seen.node_count) * degree).astype(int), len(target) - 1)
        peer, measured_ms = target[slot], rtt_ms[slot]
        apart = point - point[peer]
        length = np.maximum(np.linalg.norm(apart, axis=1), 1e-6)
        predicted = length + height + height[peer]
        weight = error / (error + error[peer])
        share = GAIN * weight
        error = np.clip(np.abs(predicted / measured_ms - 1) * share + error * (1 - share), 0.01, 1.5)
        force = share * (measured_ms - predicted) / length
        point, height = point + apart * force[:, None], np.maximum(0.01, height + (height + height[peer]) * force)

    def estimate(first: Indices, second: Indices) -> Floats:
        distance: Floats = np.linalg.norm(point[first] - point[second], axis=1)
        return np.asarray(distance + height[first] + height[second])

    ratio: Floats = np.exp(seen.log_ms) / estimate(seen.first, seen.second)
    low, high = np.quantile(ratio, (0.05, 0.95))
    middle = estimate(one, other)
    return middle, middle * low, middle * high
