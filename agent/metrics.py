"""/metrics of the agent: one custom collector that renders what is in memory and does no I/O."""

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agent.reporting import Reporter

Families = Callable[[], Iterable[Metric]]


class Latest(Collector):
    """Asks each source for its families at each scrape: what a source has forgotten is gone from the next scrape."""

    def __init__(self, *sources: Families) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        for source in self._sources:
            yield from source()


def registry(*sources: Families) -> CollectorRegistry:
    found = CollectorRegistry(auto_describe=False)
    found.register(Latest(build, *sources))
    return found


def build() -> Iterator[Metric]:
    info = GaugeMetricFamily("leadsman_build_info", "Constant 1, labelled with the version.", labels=["version"])
    info.add_metric([version("leadsman")], 1)
    yield info


def reports(reporter: Reporter) -> Iterator[Metric]:
    """How the reports to etcd fare."""
    yield CounterMetricFamily("leadsman_reports", "Reports acknowledged by etcd.", reporter.reports)
    failures = CounterMetricFamily("leadsman_report_failures", "Reports that failed, by cause.", labels=["cause"])
    for cause, count in reporter.failures.items():
        failures.add_metric([cause], count)
    yield failures
    yield GaugeMetricFamily(
        "leadsman_node_claimed", "1 while this agent holds its node's records under a lease.", reporter.held is not None
    )
