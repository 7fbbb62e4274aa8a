"""Counts that only grow, for metrics. Pure."""

from bisect import bisect_left

BUCKET_BOUNDS_SECONDS = tuple(50e-6 * 2**power for power in range(20))
"""Upper bounds of the buckets, doubling from 50 us to 26.2 s, as smokeping_prober's do."""


class RttHistogram:
    """Counts RTTs by bucket. A timeout is not counted: it is no latency."""

    __slots__ = ("_counts", "sum_seconds")

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKET_BOUNDS_SECONDS) + 1)
        self.sum_seconds = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(BUCKET_BOUNDS_SECONDS, seconds)] += 1
        self.sum_seconds += seconds

    def cumulative_buckets(self) -> list[tuple[str, float]]:
        """Prometheus' shape: (upper bound, number of values up to it), the last bound +Inf."""
        total, rows = 0, []
        for bound, count in zip((*(f"{b:g}" for b in BUCKET_BOUNDS_SECONDS), "+Inf"), self._counts, strict=True):
            total += count
            rows.append((bound, float(total)))
        return rows


class ProbeCounts:
    """Counts probes, to one peer or to all. Every probe sent ends as answered, lost or unusable, or is still open.

    unusable: answered, but the wall clock was set meanwhile.
    unsent: could not leave this host, so it is no probe at all.
    """

    __slots__ = ("lost", "sent", "unsent", "unusable")

    def __init__(self) -> None:
        self.sent = self.lost = self.unusable = self.unsent = 0
