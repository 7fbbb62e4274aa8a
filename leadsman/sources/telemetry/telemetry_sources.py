"""All sources of one process: which there are, in which order they count, and their tasks."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Protocol, Self

from msgspec import Struct

from leadsman.decision.telemetry.model import (
    DEFAULT_MAX_AGE_SECONDS,
    PolledMetrics,
    SnapshotMetrics,
    TasPolicies,
    TelemetryInputs,
)
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.sources.telemetry import custom_metrics, prometheus
from leadsman.sources.telemetry.custom_metrics import CustomMetricsSource
from leadsman.sources.telemetry.polling import POLL_INTERVAL_SECONDS, MetricPoller, Samples
from leadsman.sources.telemetry.prometheus import PrometheusQueries, PrometheusSource
from leadsman.sources.telemetry.tas_policies import TasPolicyFollower

AGENTS_SOURCE = "agents"
SOURCE_NAMES = (AGENTS_SOURCE, custom_metrics.NAME, prometheus.NAME)


class TelemetrySettings(Struct, frozen=True):
    """sources: of NAMES, the first that knows a metric counts. api: where policies and custom metrics are.

    prometheus: its own URL, certificates and token; only with that source. sync_seconds: between two polls.
    age_seconds: how long a polled value counts, unless the policy says.
    """

    sources: tuple[str, ...]
    api: ApiAccess
    prometheus: ApiAccess | None = None
    queries: PrometheusQueries = PrometheusQueries()
    poll_interval_seconds: float = POLL_INTERVAL_SECONDS
    age_seconds: float = DEFAULT_MAX_AGE_SECONDS

    def __post_init__(self) -> None:
        """ValueError when values would grow old between two polls that both succeed."""
        if self.age_seconds < 2 * self.poll_interval_seconds:
            raise ValueError(
                f"metrics count for {self.age_seconds:g} s and are polled every {self.poll_interval_seconds:g} s; "
                "want an age of two polls at least"
            )


class MetricSource(Protocol):
    """Whatever has a newest table of metrics; replaced and never altered."""

    @property
    def current(self) -> PolledMetrics | SnapshotMetrics: ...


class AgentMetrics(Struct, frozen=True):
    """The agents' own hardware metrics: they stand in the state, so there is nothing to ask for."""

    current: SnapshotMetrics = SnapshotMetrics()


class TelemetrySources:
    """`async with` it inside a TaskGroup's life; `follow` starts its tasks; readers take `current`."""

    def __init__(self, settings: TelemetrySettings, clock: Callable[[], float]) -> None:
        self._clock, self._stack = clock, AsyncExitStack()
        self.api = ApiClient(settings.api)
        self.policies = TasPolicyFollower(self.api, self._poll_soon)
        self.pollers: dict[str, MetricPoller] = {}
        self._sources = [self._source(name, settings) for name in settings.sources]

    @property
    def current(self) -> TelemetryInputs:
        return TelemetryInputs(self.policies.current, tuple(source.current for source in self._sources))

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.api)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def tasks(self) -> Iterator[tuple[str, Coroutine[None, None, None]]]:
        """What must run meanwhile, by name."""
        yield "follow the telemetry policies", self.policies.run()
        for name, poller in self.pollers.items():
            yield f"poll {name}", poller.run()

    def start(self, group: asyncio.TaskGroup) -> Sequence[asyncio.Task[None]]:
        return [group.create_task(loop, name=name) for name, loop in self.tasks()]

    def _source(self, name: str, settings: TelemetrySettings) -> MetricSource:
        if name == AGENTS_SOURCE:
            return AgentMetrics()
        return self.pollers.setdefault(name, self._poller(name, settings))

    def _poller(self, name: str, settings: TelemetrySettings) -> MetricPoller:
        if name == custom_metrics.NAME:
            return self._make_poller(name, CustomMetricsSource(self.api).query, settings)
        if settings.prometheus is None:
            raise ValueError(f"source {name}: its URL is missing")
        client = ApiClient(settings.prometheus)
        self._stack.push_async_callback(client.close)
        return self._make_poller(name, PrometheusSource(client, settings.queries).query, settings)

    def _make_poller(
        self, name: str, ask: Callable[[str], Awaitable[Samples]], settings: TelemetrySettings
    ) -> MetricPoller:
        return MetricPoller(
            name,
            ask,
            self._wanted_metrics,
            interval_seconds=settings.poll_interval_seconds,
            age_seconds=settings.age_seconds,
            clock=self._clock,
        )

    def _wanted_metrics(self) -> frozenset[str]:
        policies: TasPolicies = self.policies.current
        return policies.metrics

    def _poll_soon(self) -> None:
        for poller in self.pollers.values():
            poller.poll_soon()
