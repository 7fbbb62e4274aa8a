"""/metrics of the agent: one custom collector that renders what is in memory and does no I/O."""

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.reporting import Reporter

FamilySource = Callable[[], Iterable[Metric]]


class FamiliesCollector(Collector):
    """Asks each source for its families at each scrape: what a source has forgotten is gone from the next scrape."""

    def __init__(self, *sources: FamilySource) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        for source in self._sources:
            yield from source()


def create_registry(*sources: FamilySource) -> CollectorRegistry:
    found = CollectorRegistry(auto_describe=False)
    found.register(FamiliesCollector(build_info, *sources))
    return found


def build_info() -> Iterator[Metric]:
    info = GaugeMetricFamily("leadsman_build_info", "Constant 1, labelled with the version.", labels=["version"])
    info.add_metric([version("leadsman")], 1)
    yield info


def report_metrics(reporter: Reporter) -> Iterator[Metric]:
    """How the reports to etcd fare."""
    yield CounterMetricFamily("leadsman_reports", "Reports acknowledged by etcd.", reporter.report_count)
    failures = CounterMetricFamily("leadsman_report_failures", "Reports that failed, by cause.", labels=["cause"])
    for cause, count in reporter.failures.items():
        failures.add_metric([cause], count)
    yield failures
    yield GaugeMetricFamily(
        "leadsman_node_claimed",
        "1 while this agent holds its node's records under a lease.",
        reporter.ownership is not None,
    )
