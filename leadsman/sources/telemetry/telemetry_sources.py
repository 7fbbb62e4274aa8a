"""Builds and runs the telemetry sources that an operator chose: policies, and metric sources in order."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack
from typing import Self

from msgspec import Struct
from prometheus_client.core import GaugeMetricFamily, Metric

from leadsman.decision.inputs import (
    DEFAULT_MAX_AGE_SECONDS,
    PolledMetrics,
    SnapshotMetrics,
    TasPolicies,
    TelemetryInputs,
)
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.sources.source import Source
from leadsman.sources.telemetry import custom_metrics, prometheus
from leadsman.sources.telemetry.custom_metrics import CustomMetricsSource
from leadsman.sources.telemetry.polling import POLL_INTERVAL_SECONDS, MetricPoller, Samples
from leadsman.sources.telemetry.prometheus import PrometheusQueries, PrometheusSource
from leadsman.sources.telemetry.tas_policies import TasPolicyFollower

AGENTS_SOURCE = "agents"
SOURCE_NAMES = (AGENTS_SOURCE, custom_metrics.NAME, prometheus.NAME)


class TelemetrySettings(Struct, frozen=True):
    """Which telemetry sources to follow.

    sources: some of SOURCE_NAMES; the first that knows a metric counts.
    api: the API server, for policies and custom metrics.
    prometheus: the URL, certificates and token of Prometheus; required by that source.
    queries: how Prometheus is queried.
    poll_interval_seconds: between two polls.
    age_seconds: how long a polled value counts, unless the policy says otherwise.
    """

    sources: tuple[str, ...]
    api: ApiAccess
    prometheus: ApiAccess | None = None
    queries: PrometheusQueries = PrometheusQueries()
    poll_interval_seconds: float = POLL_INTERVAL_SECONDS
    age_seconds: float = DEFAULT_MAX_AGE_SECONDS

    def __post_init__(self) -> None:
        """ValueError when values would become too old between two polls that both succeed."""
        if self.age_seconds < 2 * self.poll_interval_seconds:
            raise ValueError(
                f"metric values count for {self.age_seconds:g} s (--metric-age-seconds) and are polled every "
                f"{self.poll_interval_seconds:g} s (--sync-seconds); they must count for two polls at least"
            )


class AgentMetrics(Struct, frozen=True):
    """The agents' own hardware metrics: they are part of the snapshot, so nothing is polled."""

    current: SnapshotMetrics = SnapshotMetrics()


class TelemetrySources:
    """All telemetry sources of a process. `async with` it, run its tasks, and read `current`.

    clock: monotonic seconds.
    pollers: source → its poller.
    """

    def __init__(self, settings: TelemetrySettings, clock: Callable[[], float]) -> None:
        self._clock, self._stack = clock, AsyncExitStack()
        self.api = ApiClient(settings.api)
        self.policies = TasPolicyFollower(self.api, self._poll_soon)
        self.pollers: dict[str, MetricPoller] = {}
        self._sources = [self._source(name, settings) for name in settings.sources]

    @property
    def current(self) -> TelemetryInputs:
        """The newest policies and metrics."""
        return TelemetryInputs(self.policies.current, tuple(source.current for source in self._sources))

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.api)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def tasks(self) -> Iterator[tuple[str, Coroutine[None, None, None]]]:
        """Name and loop of each task; all run until cancelled."""
        yield "watch telemetry policies", self.policies.run()
        for name, poller in self.pollers.items():
            yield f"poll {name}", poller.run()

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        return telemetry_metrics(self.policies.current, self.pollers.values(), self._clock())

    def _source(self, name: str, settings: TelemetrySettings) -> Source[PolledMetrics | SnapshotMetrics]:
        if name == AGENTS_SOURCE:
            return AgentMetrics()
        return self.pollers.setdefault(name, self._poller(name, settings))

    def _poller(self, name: str, settings: TelemetrySettings) -> MetricPoller:
        if name == custom_metrics.NAME:
            return self._make_poller(name, CustomMetricsSource(self.api).query, settings)
        if settings.prometheus is None:
            raise ValueError(f"telemetry source {name} has no URL; write --telemetry {name}=http://HOST:PORT")
        client = ApiClient(settings.prometheus)
        self._stack.push_async_callback(client.close)
        return self._make_poller(name, PrometheusSource(client, settings.queries).query, settings)

    def _make_poller(
        self, name: str, query: Callable[[str], Awaitable[Samples]], settings: TelemetrySettings
    ) -> MetricPoller:
        return MetricPoller(
            name,
            query,
            self._policy_metrics,
            interval_seconds=settings.poll_interval_seconds,
            age_seconds=settings.age_seconds,
            clock=self._clock,
        )

    def _policy_metrics(self) -> frozenset[str]:
        policies: TasPolicies = self.policies.current
        return policies.metrics

    def _poll_soon(self) -> None:
        for poller in self.pollers.values():
            poller.poll_soon()


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
