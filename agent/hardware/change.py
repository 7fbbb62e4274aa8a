"""What changed between two readings: values now, growth and rates of counters. Pure.

Rates are per second of the monotonic clock between the two runs of the same collector.
"""

from msgspec import Struct

from agent.hardware.reading import Reading
from agent.hardware.samples import Family, Labels

Timed = dict[str, dict[Labels, tuple[float, float]]]
"""Family name → labels → (value, seconds)."""


class Change(Struct, frozen=True):
    """`before` is empty after the start."""

    before: Timed
    after: Timed

    def values(self, family: Family) -> dict[Labels, float]:
        return {labels: value for labels, (value, _) in self.after.get(family.name, {}).items()}

    def growth(self, family: Family) -> dict[Labels, float]:
        """By how much each counter grew; without those that are new or were reset."""
        before = self.before.get(family.name, {})
        grown = {labels: value - before[labels][0] for labels, value in self.values(family).items() if labels in before}
        return {labels: growth for labels, growth in grown.items() if growth >= 0}

    def rates(self, family: Family) -> dict[Labels, float]:
        """Growth per second."""
        seconds = {labels: self._seconds(family, labels) for labels in self.growth(family)}
        return {
            labels: growth / seconds[labels] for labels, growth in self.growth(family).items() if seconds[labels] > 0
        }

    def _seconds(self, family: Family, labels: Labels) -> float:
        return self.after[family.name][labels][1] - self.before[family.name][labels][1]


def between(before: Reading | None, after: Reading) -> Change:
    return Change(_by_family(before), _by_family(after))


def _by_family(reading: Reading | None) -> Timed:
    families: Timed = {}
    for sample, at_seconds in reading.samples() if reading else ():
        families.setdefault(sample.family.name, {})[sample.labels] = (sample.value, at_seconds)
    return families
