"""Metrics of this node's pods. The number of series is bounded: 64 types of pod, 13 causes."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from agent.pods.monitor import PodMonitor
from agent.pods.reward_persistence import RewardPersistence
from leadsman.kube.objects import Pod
from leadsman.kube.reflector import Reflector


def families(monitor: PodMonitor, persistence: RewardPersistence) -> Iterator[Metric]:
    yield from _watch_metrics(monitor.pods)
    yield from _write_metrics(persistence)
    yield CounterMetricFamily(
        "leadsman_pod_event_queries", "Times the API server was asked for a pod's Events.", monitor.event_lookup.lookups
    )
    yield CounterMetricFamily(
        "leadsman_pod_event_query_failures",
        "Queries for a pod's Events that the API server refused or did not answer.",
        monitor.event_lookup.failures,
    )
    yield CounterMetricFamily(
        "leadsman_bind_failure_read_failures",
        "Reads of this node's bind failures from etcd that failed.",
        monitor.bind_failures.read_failures,
    )
    yield CounterMetricFamily(
        "leadsman_bind_failure_lists_cut",
        "Reads of this node's bind failures from etcd that left some out, because they are too many.",
        monitor.bind_failures.list.cuts,
    )
    yield CounterMetricFamily(
        "leadsman_reward_lists_cut",
        "Reads of this node's rewards from etcd that left some out, because they are too many.",
        persistence.list.cuts,
    )
    yield CounterMetricFamily("leadsman_pod_scrapes", "Reads of pods' own metrics.", monitor.observer.scraper.scrapes)
    yield CounterMetricFamily(
        "leadsman_pod_scrape_failures",
        "Reads of pods' own metrics that gave no value.",
        monitor.observer.scraper.failures,
    )
    active = GaugeMetricFamily(
        "leadsman_reward_plugin_active",
        "1 while the last call of the reward plugin gave costs, 0 while it fails or rests.",
        labels=["plugin"],
    )
    for plugin in monitor.observer.plugins:
        active.add_metric([plugin.name], not plugin.problem.text)
    yield active
    yield from _incident_metrics(monitor)


def _watch_metrics(pods: Reflector[Pod]) -> Iterator[Metric]:
    yield GaugeMetricFamily("leadsman_pods", "Pods of this node.", len(pods.current))
    yield GaugeMetricFamily(
        "leadsman_pods_followed",
        "1 while the agent has the current list of this node's pods from the API server.",
        not pods.problem.text and pods.loaded.is_set(),
    )
    yield CounterMetricFamily("leadsman_pods_relists", "Times the agent listed the node's pods in full.", pods.relists)
    errors = CounterMetricFamily(
        "leadsman_pods_errors", "Calls to the API server for the node's pods that failed, by error.", labels=["error"]
    )
    for error, count in pods.errors.items():
        errors.add_metric([error], count)
    yield errors


def _write_metrics(persistence: RewardPersistence) -> Iterator[Metric]:
    yield CounterMetricFamily(
        "leadsman_rewards_writes", "Writes of rewards that etcd acknowledged.", persistence.writes
    )
    yield CounterMetricFamily("leadsman_rewards_write_failures", "Writes of rewards that failed.", persistence.failures)


def _incident_metrics(monitor: PodMonitor) -> Iterator[Metric]:
    """Series of types that the ledger dropped go."""
    ledger = monitor.ledger
    if ledger is None:
        return
    incidents = CounterMetricFamily(
        "leadsman_incidents", "Incidents of this node's pods, by type of pod and cause.", labels=["type", "cause"]
    )
    for (name, cause), count in ledger.incident_counts.items():
        incidents.add_metric([name, cause.value], count)
    yield incidents
    healthy = CounterMetricFamily(
        "leadsman_pod_healthy_seconds",
        "Seconds in which this node's pods were healthy, by type of pod.",
        labels=["type"],
    )
    for name, seconds in ledger.healthy_seconds.items():
        healthy.add_metric([name], seconds)
    yield healthy
