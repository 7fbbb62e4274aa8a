"""Evaluates estimates: hides most of a network whose round trips are known, and compares.

rtt_ms is square with sources as rows; what is not usable (`usable_mask`) is missing.
"""

from typing import NamedTuple

import numpy as np

from leadsman.network.measured_pairs import Floats, Indices, MeasuredPairs, build_pairs, usable_mask
from leadsman.simulator.generated_cluster import random_peers


class EstimateAccuracy(NamedTuple):
    """How good estimates are. Errors are |estimate / truth - 1|, infinite for a pair without an estimate; coverage is
    a share, 0..1."""

    median_relative_error: float
    p90_relative_error: float
    interval_coverage: float


def sample_pairs(rtt_ms: Floats, k: int, rng: np.random.Generator) -> MeasuredPairs:
    """The pairs when every node measures k random peers; a pair that one of them measured has both directions."""
    source, target = random_peers(len(rtt_ms), k, rng)
    source, target = np.concatenate([source, target]), np.concatenate([target, source])
    return build_pairs(len(rtt_ms), source, target, rtt_ms[source, target])


def held_out_pairs(rtt_ms: Floats, seen: MeasuredPairs) -> tuple[Indices, Indices]:
    """Sources and targets of everything that `seen` does not have in either direction."""
    one, other = np.nonzero(usable_mask(rtt_ms) & ~np.eye(len(rtt_ms), dtype=bool))
    kept = ~seen.find_pairs(one, other)[1]
    return one[kept], other[kept]


def measure_accuracy(estimate_ms: Floats, low_ms: Floats, high_ms: Floats, truth_ms: Floats) -> EstimateAccuracy:
    """The accuracy of estimates with their intervals."""
    relative = np.nan_to_num(np.abs(estimate_ms / truth_ms - 1), nan=np.inf)
    covered = (low_ms <= truth_ms) & (truth_ms <= high_ms)
    median, high = np.quantile(relative, (0.5, 0.9), method="higher")
    return EstimateAccuracy(float(median), float(high), float(covered.mean()))
