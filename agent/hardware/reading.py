"""Says what one round of collectors came to: an outcome for each, and what changed between two rounds.

Measured   samples; `faults` names sensors that failed beside them
Absent     this node has no such hardware, driver or kernel feature: nothing to repair
Failed     the collector failed: somebody should look
Overdue    the collector exceeded its deadline, or is quarantined since it did
"""

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from agent.hardware.kernel_files import ABSENT_ERRNOS, CollectFunction, Labels
from leadsman.plugin import HostRoots, MetricFamily, NoData, Sample, SensorFault


class Measured(Struct, frozen=True):
    """The collector's samples. at_seconds: the monotonic clock when it began, for rates."""

    at_seconds: float
    duration_seconds: float
    samples: tuple[Sample, ...]
    faults: tuple[str, ...] = ()


class Absent(Struct, frozen=True):
    reason: str
    duration_seconds: float = 0.0


class Failed(Struct, frozen=True):
    error: str
    duration_seconds: float = 0.0


class Overdue(Struct, frozen=True):
    """The collector is late. overruns: in a row. duration_seconds: since it began."""

    overruns: int
    duration_seconds: float


CollectorOutcome = Measured | Absent | Failed | Overdue


class HardwareReading(Struct, frozen=True):
    """Holds the outcomes of one round.

    at_seconds: the monotonic clock at its end.
    outcomes: name of the collector → its outcome.
    """

    at_seconds: float
    outcomes: Mapping[str, CollectorOutcome]

    def samples(self) -> Iterator[tuple[Sample, float]]:
        """Yields each sample with the time its collector began."""
        for outcome in self.outcomes.values():
            if isinstance(outcome, Measured):
                yield from ((sample, outcome.at_seconds) for sample in outcome.samples)


def run_collector(collect: CollectFunction, roots: HostRoots, clock: Callable[[], float]) -> CollectorOutcome:
    """Runs one collector. An exception is that collector's failure, so that one cannot end the others."""
    began = clock()
    try:
        items = list(collect(roots))
    except NoData as absent:
        return Absent(str(absent), clock() - began)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in ABSENT_ERRNOS:
            return Absent(f"{error.filename or 'file'}: {error.strerror}", clock() - began)
        return Failed(f"{type(error).__name__}: {error}", clock() - began)
    duration_seconds = clock() - began
    samples = tuple(item for item in items if isinstance(item, Sample))
    faults = tuple(item.message for item in items if isinstance(item, SensorFault))
    if samples:
        return Measured(began, duration_seconds, samples, faults)
    if faults:
        return Failed("; ".join(faults), duration_seconds)
    return Absent("the collector found no device of its kind", duration_seconds)


# Values now, and growth and rates of counters between two readings.
#
# Rates are per second of the monotonic clock between the two runs of the same collector.

TimedValues = dict[str, dict[Labels, tuple[float, float]]]
"""Maps family name → labels → (value, seconds)."""


class ReadingDelta(Struct, frozen=True):
    """`before` is empty after the start."""

    before: TimedValues
    after: TimedValues

    def values(self, family: MetricFamily) -> dict[Labels, float]:
        return {labels: value for labels, (value, _) in self.after.get(family.name, {}).items()}

    def growth(self, family: MetricFamily) -> dict[Labels, float]:
        """Tells by how much each counter grew; those that are new or were reset are left out."""
        before = self.before.get(family.name, {})
        grown = {labels: value - before[labels][0] for labels, value in self.values(family).items() if labels in before}
        return {labels: growth for labels, growth in grown.items() if growth >= 0}

    def rates(self, family: MetricFamily) -> dict[Labels, float]:
        """Maps labels to growth per second."""
        rates, growth = dict[Labels, float](), self.growth(family)
        for labels, grown in growth.items():
            seconds = self.after[family.name][labels][1] - self.before[family.name][labels][1]
            if seconds > 0:
                rates[labels] = grown / seconds
        return rates


def delta_between(before: HardwareReading | None, after: HardwareReading) -> ReadingDelta:
    return ReadingDelta(_by_family(before), _by_family(after))


def _by_family(reading: HardwareReading | None) -> TimedValues:
    families: TimedValues = {}
    for sample, at_seconds in reading.samples() if reading else ():
        families.setdefault(sample.family.name, {})[sample.labels] = (sample.value, at_seconds)
    return families
