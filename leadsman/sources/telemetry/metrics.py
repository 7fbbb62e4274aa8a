"""What the telemetry sources show at /metrics. Read from memory."""

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from leadsman.sources.telemetry.telemetry_sources import TelemetrySources


def telemetry_metrics(sources: TelemetrySources, clock: Callable[[], float]) -> Iterator[Metric]:
    """clock: monotonic seconds, the sources' own."""
    policies, now = sources.policies.current, clock()
    counted = GaugeMetricFamily(
        "leadsman_telemetry_policies",
        "Telemetry policies in use, and those whose newest version was refused.",
        labels=["state"],
    )
    counted.add_metric(["used"], len(policies.used))
    counted.add_metric(["refused"], len(policies.refused))
    yield counted
    metrics = GaugeMetricFamily(
        "leadsman_telemetry_metrics",
        "Metrics that policies name, by whether the last poll got them.",
        labels=["source", "state"],
    )
    age = GaugeMetricFamily(
        "leadsman_telemetry_age_seconds",
        "Seconds since the oldest value of the metric source was read.",
        labels=["source"],
    )
    for name, poller in sources.pollers.items():
        metrics.add_metric([name, "read"], len(poller.current.columns.keys() - poller.errors.keys()))
        metrics.add_metric([name, "failed"], len(poller.errors))
        oldest = min((column.oldest_read_at for column in poller.current.columns.values()), default=now)
        age.add_metric([name], max(0.0, now - min(oldest, now)))
    yield metrics
    yield age
