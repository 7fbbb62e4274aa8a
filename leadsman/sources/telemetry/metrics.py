"""Metrics of the telemetry sources. A scrape reads memory only."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from leadsman.decision.telemetry.model import TasPolicies
from leadsman.sources.telemetry.polling import MetricPoller


def telemetry_metrics(policies: TasPolicies, pollers: Iterable[MetricPoller], now: float) -> Iterator[Metric]:
    """now: monotonic seconds, on the pollers' clock."""
    policy_counts = GaugeMetricFamily(
        "leadsman_telemetry_policies",
        "Telemetry policies in use, and telemetry policies whose newest version was refused.",
        labels=["state"],
    )
    policy_counts.add_metric(["used"], len(policies.used))
    policy_counts.add_metric(["refused"], len(policies.refused))
    yield policy_counts
    metrics = GaugeMetricFamily(
        "leadsman_telemetry_metrics",
        "Metrics that telemetry policies name, by whether the last poll read them.",
        labels=["source", "state"],
    )
    age = GaugeMetricFamily(
        "leadsman_telemetry_age_seconds",
        "Seconds since the oldest value of the metric source was read.",
        labels=["source"],
    )
    for poller in pollers:
        metrics.add_metric([poller.name, "read"], len(poller.current.columns.keys() - poller.errors.keys()))
        metrics.add_metric([poller.name, "failed"], len(poller.errors))
        oldest = min((column.oldest_read_at for column in poller.current.columns.values()), default=now)
        age.add_metric([poller.name], max(0.0, now - min(oldest, now)))
    yield metrics
    yield age
