"""Metrics of the agent's reports to etcd."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from agent.reporting import Reporter
from agent.settings import AgentSettings


def agent_info(settings: AgentSettings) -> Iterator[Metric]:
    """The node's name, to join with, whatever the scraper calls the instance."""
    info = GaugeMetricFamily(
        "leadsman_agent_info",
        "Constant 1, labelled with the name, zone and rack of the node that the agent measures.",
        labels=["node", "zone", "rack"],
    )
    info.add_metric([settings.node, settings.zone, settings.rack], 1)
    yield info


def report_metrics(reporter: Reporter) -> Iterator[Metric]:
    """The metrics of the reporter."""
    yield CounterMetricFamily("leadsman_reports", "Reports that etcd acknowledged.", reporter.report_count)
    failures = CounterMetricFamily(
        "leadsman_report_failures", "Reports to etcd that failed, by cause.", labels=["cause"]
    )
    for cause, count in reporter.failures.items():
        failures.add_metric([cause], count)
    yield failures
    yield GaugeMetricFamily(
        "leadsman_node_claimed",
        "1 while this agent owns its node's records in etcd under a lease.",
        reporter.ownership is not None,
    )
