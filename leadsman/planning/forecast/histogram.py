"""A histogram whose samples lose weight with age, as the Vertical Pod Autoscaler's recommender keeps it.

Source: kubernetes/autoscaler, vertical-pod-autoscaler/pkg/recommender/util/{decaying_histogram,histogram_options}.go.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

HALF_LIFE_SECONDS = 24 * 3600.0
"""VPA's --cpu-histogram-decay-half-life and --memory-histogram-decay-half-life."""


class Buckets(NamedTuple):
    """Each is by `ratio` wider than the one before it; values beyond the last edge count in the last bucket.

    first: width of the first one. largest: where the last one begins, at most.
    """

    first: float
    largest: float
    ratio: float = 1.05

    @property
    def number(self) -> int:
        return math.ceil(math.log(self.largest * (self.ratio - 1) / self.first + 1, self.ratio)) + 1

    def start(self, bucket: int) -> float:
        """Where it begins."""
        return self.first * (self.ratio**bucket - 1) / (self.ratio - 1)

    def of(self, values: Floats) -> NDArray[np.int64]:
        """The bucket of each value."""
        at = np.log(values.clip(min=0) * (self.ratio - 1) / self.first + 1) / math.log(self.ratio)
        found: NDArray[np.int64] = np.minimum(at.astype(np.int64), self.number - 1)
        return found


CPU_MILLIS = Buckets(10.0, 1_000_000.0)
"""0.01 to 1,000 cores, in millis."""

MEMORY_BYTES = Buckets(1e7, 1e12)


def decayed_percentile(
    values: Floats,
    times: Floats,
    now: float,
    share: float,
    buckets: Buckets,
    half_life_seconds: float = HALF_LIFE_SECONDS,
) -> float:
    """The value that `share` of the weight does not exceed: the upper edge of its bucket. ValueError without values.

    values, times: of the samples; times and `now` in Unix seconds. A sample of now has weight 1, one that is a
    half-life old has half.
    """
    if not len(values):
        raise ValueError("a percentile needs at least one sample")
    weights = np.exp2((times - now) / half_life_seconds)
    by_bucket = np.bincount(buckets.of(values), weights, minlength=buckets.number)
    reached = np.cumsum(by_bucket) >= share * by_bucket.sum() * (1 - 1e-12)
    bucket = int(np.argmax(reached))
    return buckets.start(min(bucket + 1, buckets.number - 1))
