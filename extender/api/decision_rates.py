"""How many decisions a minute, and how long they take, from the buckets of each replica's histogram at two moments."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

WINDOW_SECONDS = 60.0

CumulativeBuckets = Mapping[float, float]
"""Upper end in seconds → observations up to it since start; the last end is infinite."""


class Window(NamedTuple):
    """What one replica decided within so many seconds. buckets: of these decisions alone; {}: none is known."""

    seconds: float = 0.0
    buckets: CumulativeBuckets = MappingProxyType({})


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
    def window(self) -> Window:
        if len(self._samples) < 2:
            return Window()
        (began, before), (ended, after) = self._samples[0], self._samples[-1]
        return Window(ended - began, {end: count - before.get(end, 0.0) for end, count in after.items()})


def rates_of(windows: Sequence[Window]) -> Rates:
    """Of all replicas together. Quantiles are of the sum of their histograms: those of each cannot be averaged."""
    decided = [each for each in windows if each.seconds > 0 and each.buckets]
    if not decided:
        return Rates(0.0, None, None)
    # Replicas of two versions may have other ends; all have the infinite one.
    ends = set.intersection(*(set(each.buckets) for each in decided))
    merged = {end: sum(each.buckets[end] for each in decided) for end in ends}
    per_minute = sum(60 * max(each.buckets.values()) / each.seconds for each in decided)
    return Rates(per_minute, quantile_ms(merged, 0.5), quantile_ms(merged, 0.99))


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
