"""How many decisions a minute, and how long they take, from the buckets of a histogram at two moments."""

from collections import deque
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

WINDOW_SECONDS = 60.0

CumulativeBuckets = Mapping[float, float]
"""Upper end in seconds → observations up to it since start; the last end is infinite."""


class Rates(NamedTuple):
    """p50_ms, p99_ms: None: nothing was decided."""

    per_minute: float
    p50_ms: float | None
    p99_ms: float | None


class DecisionRates:
    """Of the last WINDOW_SECONDS. `sample` it every few seconds."""

    def __init__(self) -> None:
        self._samples = deque[tuple[float, CumulativeBuckets]]()

    def sample(self, now: float, buckets: CumulativeBuckets) -> None:
        """now: monotonic seconds."""
        self._samples.append((now, buckets))
        while len(self._samples) > 2 and now - self._samples[1][0] >= WINDOW_SECONDS:
            self._samples.popleft()

    @property
    def current(self) -> Rates:
        if len(self._samples) < 2:
            return Rates(0.0, None, None)
        (began, before), (ended, after) = self._samples[0], self._samples[-1]
        new = {end: count - before.get(end, 0.0) for end, count in after.items()}
        total = max(new.values(), default=0.0)
        return Rates(60 * total / (ended - began), quantile_ms(new, 0.5), quantile_ms(new, 0.99))


def quantile_ms(buckets: CumulativeBuckets, quantile: float) -> float | None:
    """As Prometheus' histogram_quantile: linear within a bucket; above the last finite end that end. None: empty."""
    total = max(buckets.values(), default=0.0)
    if not total:
        return None
    rank = quantile * total
    for (low, below), (high, upto) in pairwise([(0.0, 0.0), *sorted(buckets.items())]):
        if upto >= rank:
            if high == float("inf"):
                return 1000 * low
            return 1000 * (low + (high - low) * (rank - below) / (upto - below))
    return None
