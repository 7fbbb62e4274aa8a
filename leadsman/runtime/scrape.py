"""Makes metrics when they are scraped, from what is in memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from leadsman.runtime.version import VERSION

FamilySource = Callable[[], Iterable[Metric]]
"""Yields metric families without I/O: a scrape waits for it."""


class FamiliesCollector(Collector):
    """Asks each source for its families at each scrape: a series that a source has dropped is gone at once."""

    def __init__(self, *sources: FamilySource) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        for source in self._sources:
            yield from source()

    def describe(self) -> list[Metric]:
        """Returns nothing: a registry that asks calls no source before the first scrape."""
        return []


def create_registry(*sources: FamilySource) -> CollectorRegistry:
    """Makes a registry of these sources, `leadsman_build_info`, and the client's own process_* and python_*, which read
    /proc/self alone. No counter of the process has a second series `_created`."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    for standard in (ProcessCollector, PlatformCollector, GCCollector):
        standard(registry=registry)
    registry.register(FamiliesCollector(build_info, *sources))
    return registry


def build_info() -> Iterator[Metric]:
    info = GaugeMetricFamily("leadsman_build_info", "Constant 1, labelled with the version.", labels=["version"])
    info.add_metric([VERSION], 1)
    yield info


Values = Mapping[Any, float] | float
"""Keys: values of labels, a tuple of them where there are several."""


def gauge(name: str, documentation: str, values: Values, *labels: str) -> Metric:
    """Makes a gauge of one value, or with labels of a value for each of theirs."""
    return _family(GaugeMetricFamily(name, documentation, labels=labels), values)


def counter(name: str, documentation: str, values: Values, *labels: str) -> Metric:
    """Makes a counter of one value, or with labels of a value for each of theirs."""
    return _family(CounterMetricFamily(name, documentation, labels=labels), values)


def _family(family: GaugeMetricFamily | CounterMetricFamily, values: Values) -> Metric:
    if isinstance(values, Mapping):
        for of, value in values.items():
            family.add_metric([of] if isinstance(of, str) else of, value)
    else:
        family.add_metric([], values)
    return family
