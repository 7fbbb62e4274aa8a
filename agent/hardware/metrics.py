"""Metrics of the latest reading, made from memory: a scrape reads no file and waits for no sensor.

Names and meanings are node_exporter's behind `leadsman_`, in snake_case throughout, which `promtool check metrics`
asks for (memory_available_bytes, not memory_MemAvailable_bytes). The number of series is bounded by the hardware,
not by the cores or the pods.
"""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from agent.hardware.reading import Absent, CollectorOutcome, HardwareReading, Measured, Overdue
from agent.hardware.samples import MetricFamily, Sample

_PREFIX = "leadsman_"

SUCCESS = "collector_success", "1 when the collector's last run had no fault; 0 also while it is quarantined."
DURATION = "collector_duration_seconds", "Duration of the collector's last run, or of its present one."
ABSENT = "collector_absent", "1 when this node has no such hardware, driver or kernel feature; that is no fault."
QUARANTINED = "collector_quarantined", "1 while the collector is quarantined after it exceeded its deadline."


def families(latest: HardwareReading | None, show_hardware: bool = True) -> Iterator[Metric]:
    """All metrics of the reading; none before the first.

    show_hardware: False leaves only the collectors' own metrics, for nodes whose hardware node_exporter shows already.
    """
    if latest is None:
        return
    yield _counter("hardware_rounds_total", "Completed rounds of all hardware collectors.", latest.round)
    yield from _collectors(latest)
    if show_hardware:
        yield from _hardware(latest)


def _collectors(latest: HardwareReading) -> Iterator[Metric]:
    """The metrics of the collectors. One with nothing to read succeeded."""
    for (name, text), value in (
        (SUCCESS, _is_success),
        (DURATION, lambda outcome: outcome.duration_seconds),
        (ABSENT, lambda outcome: isinstance(outcome, Absent)),
        (QUARANTINED, lambda outcome: isinstance(outcome, Overdue)),
    ):
        metric = GaugeMetricFamily(_PREFIX + name, text, labels=["collector"])
        for collector, outcome in latest.outcomes.items():
            metric.add_metric([collector], float(value(outcome)))
        yield metric


def _is_success(outcome: CollectorOutcome) -> bool:
    return isinstance(outcome, Absent) or (isinstance(outcome, Measured) and not outcome.faults)


def _hardware(latest: HardwareReading) -> Iterator[Metric]:
    grouped: dict[str, list[Sample]] = {}
    for sample, _ in latest.samples():
        grouped.setdefault(sample.family.name, []).append(sample)
    for samples in grouped.values():
        yield metric_of(samples[0].family, samples)


def metric_of(family: MetricFamily, samples: list[Sample]) -> Metric:
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(_PREFIX + family.name, family.help, labels=family.labels)
    for sample in samples:
        metric.add_metric(sample.labels, sample.value)
    return metric


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(_PREFIX + name, text, value=value)
