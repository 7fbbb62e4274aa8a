"""What pods used, and what they are forecast to use."""

from collections.abc import Mapping

from msgspec import Struct

from leadsman.planning.forecast.histogram import CPU_MILLIS, MEMORY_BYTES, Buckets, Floats

RESOURCES: Mapping[str, Buckets] = {"cpu": CPU_MILLIS, "memory": MEMORY_BYTES}
"""Resource → its buckets: `cpu` in millis, `memory` in bytes."""


class Series(Struct, frozen=True, eq=False):
    """What the pods of one workload used of one resource, a sample for one pod at one time. times: Unix seconds, in
    order; values: millis or bytes."""

    times: Floats
    values: Floats

    def between(self, start: float, end: float) -> "Series":
        """The samples of start ≤ time < end."""
        kept = (self.times >= start) & (self.times < end)
        return Series(self.times[kept], self.values[kept])


UsageHistory = Mapping[str, Mapping[str, Series]]
"""Workload, as `shop/deployment/web` → resource → series."""


def last_time(history: UsageHistory) -> float:
    """Of the last sample, in Unix seconds."""
    return max(float(series.times[-1]) for by_resource in history.values() for series in by_resource.values())
