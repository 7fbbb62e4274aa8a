"""Hide most of a network whose round trips are known, and see how well they are estimated. rtt_ms: square, rows are
sources; what is not `usable` is a hole."""

from typing import NamedTuple

import numpy as np

from leadsman.network.measured_pairs import Floats, Indices, MeasuredPairs, build_pairs, usable_mask
from leadsman.network.synthetic_network import random_peers


class EstimateAccuracy(NamedTuple):
    """Errors are |estimate / truth - 1|; a pair without an estimate is infinitely wrong. Coverage is a share, 0..1."""

    median_relative_error: float
    p90_relative_error: float
    interval_coverage: float


def sample_pairs(rtt_ms: Floats, k: int, rng: np.random.Generator) -> MeasuredPairs:
    """Every node measures k random peers; a pair that either measured counts in both directions."""
    source, target = random_peers(len(rtt_ms), k, rng)
    source, target = np.concatenate([source, target]), np.concatenate([target, source])
    return build_pairs(len(rtt_ms), source, target, rtt_ms[source, target])


def held_out_pairs(rtt_ms: Floats, seen: MeasuredPairs) -> tuple[Indices, Indices]:
    """Sources and targets of everything that `seen` does not have in either direction."""
    one, other = np.nonzero(usable_mask(rtt_ms) & ~np.eye(len(rtt_ms), dtype=bool))
    kept = ~seen.find_pairs(one, other)[1]
    return one[kept], other[kept]


def measure_accuracy(estimate_ms: Floats, low_ms: Floats, high_ms: Floats, truth_ms: Floats) -> EstimateAccuracy:
    relative = np.nan_to_num(np.abs(estimate_ms / truth_ms - 1), nan=np.inf)
    covered = (low_ms <= truth_ms) & (truth_ms <= high_ms)
    median, high = np.quantile(relative, (0.5, 0.9), method="higher")
    return EstimateAccuracy(float(median), float(high), float(covered.mean()))
