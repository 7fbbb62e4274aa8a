"""Metrics of the agent's reports to etcd."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from agent.reporting import Reporter


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
