"""Values now, and growth and rates of counters between two readings. Pure.

Rates are per second of the monotonic clock between the two runs of the same collector.
"""

from msgspec import Struct

from agent.hardware.reading import HardwareReading
from agent.hardware.samples import Labels, MetricFamily

TimedValues = dict[str, dict[Labels, tuple[float, float]]]
"""Family name → labels → (value, seconds)."""


class ReadingDelta(Struct, frozen=True):
    """`before` is empty after the start."""

    before: TimedValues
    after: TimedValues

    def values(self, family: MetricFamily) -> dict[Labels, float]:
        return {labels: value for labels, (value, _) in self.after.get(family.name, {}).items()}

    def growth(self, family: MetricFamily) -> dict[Labels, float]:
        """By how much each counter grew; without those that are new or were reset."""
        before = self.before.get(family.name, {})
        grown = {labels: value - before[labels][0] for labels, value in self.values(family).items() if labels in before}
        return {labels: growth for labels, growth in grown.items() if growth >= 0}

    def rates(self, family: MetricFamily) -> dict[Labels, float]:
        """Growth per second."""
        seconds = {labels: self._seconds(family, labels) for labels in self.growth(family)}
        return {
            labels: growth / seconds[labels] for labels, growth in self.growth(family).items() if seconds[labels] > 0
        }

    def _seconds(self, family: MetricFamily, labels: Labels) -> float:
        return self.after[family.name][labels][1] - self.before[family.name][labels][1]


def delta_between(before: HardwareReading | None, after: HardwareReading) -> ReadingDelta:
    return ReadingDelta(_by_family(before), _by_family(after))


def _by_family(reading: HardwareReading | None) -> TimedValues:
    families: TimedValues = {}
    for sample, at_seconds in reading.samples() if reading else ():
        families.setdefault(sample.family.name, {})[sample.labels] = (sample.value, at_seconds)
    return families
