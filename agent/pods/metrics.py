"""What happened to this node's pods, for Prometheus. Types are bounded, so series are: 64 types, 13 causes."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from agent.pods.monitor import PodMonitor
from agent.pods.reward_persistence import RewardPersistence
from leadsman.kube.objects import Pod
from leadsman.kube.reflector import Reflector


def families(monitor: PodMonitor, cache: RewardPersistence) -> Iterator[Metric]:
    yield from _watch_metrics(monitor.pods)
    yield from _write_metrics(cache)
    yield CounterMetricFamily(
        "leadsman_pod_event_queries", "Times the API server was asked for a pod's Events.", monitor.event_lookup.lookups
    )
    yield CounterMetricFamily("leadsman_pod_scrapes", "Reads of pods' own metrics.", monitor.observer.scraper.scrapes)
    yield CounterMetricFamily(
        "leadsman_pod_scrape_failures",
        "Reads of pods' own metrics that gave no value.",
        monitor.observer.scraper.failures,
    )
    yield from _incident_metrics(monitor)


def _watch_metrics(pods: Reflector[Pod]) -> Iterator[Metric]:
    yield GaugeMetricFamily("leadsman_pods", "Pods of this node.", len(pods.current))
    yield GaugeMetricFamily(
        "leadsman_pods_followed",
        "1 while the API server tells what becomes of them.",
        not pods.problem.text and pods.loaded.is_set(),
    )
    yield CounterMetricFamily("leadsman_pods_relists", "Listings of the node's pods.", pods.relists)
    errors = CounterMetricFamily("leadsman_pods_errors", "Calls that failed, by error.", labels=["error"])
    for error, count in pods.errors.items():
        errors.add_metric([error], count)
    yield errors


def _write_metrics(cache: RewardPersistence) -> Iterator[Metric]:
    yield CounterMetricFamily("leadsman_rewards_writes", "Writes of rewards that etcd acknowledged.", cache.writes)
    yield CounterMetricFamily("leadsman_rewards_write_failures", "Writes of rewards that failed.", cache.failures)


def _incident_metrics(monitor: PodMonitor) -> Iterator[Metric]:
    """Types that were dropped from the book are dropped here too."""
    book = monitor.ledger
    if book is None:
        return
    incidents = CounterMetricFamily("leadsman_incidents", "What went wrong with pods.", labels=["type", "cause"])
    for (name, cause), count in book.incident_counts.items():
        incidents.add_metric([name, cause.value], count)
    yield incidents
    healthy = CounterMetricFamily("leadsman_pod_healthy_seconds", "Time in which pods were healthy.", labels=["type"])
    for name, seconds in book.healthy_seconds.items():
        healthy.add_metric([name], seconds)
    yield healthy
