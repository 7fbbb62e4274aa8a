"""All sources of one process: which there are, in which order they count, and their tasks."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Protocol, Self

from msgspec import Struct

from apiserver.access import Access
from apiserver.requests import Client
from decision.telemetry.known import DEFAULT_AGE_SECONDS, Agents, Policies, Polled, Telemetry
from telemetry import custom_metrics, prometheus
from telemetry.custom_metrics import CustomMetrics
from telemetry.policies import PolicyFollower
from telemetry.polling import INTERVAL_SECONDS, Poller, Samples
from telemetry.prometheus import Prometheus, Queries

AGENTS = "agents"
NAMES = (AGENTS, custom_metrics.NAME, prometheus.NAME)


class TelemetrySettings(Struct, frozen=True):
    """sources: of NAMES, the first that knows a metric counts. api: where policies and custom metrics are.

    prometheus: its own URL, certificates and token; only with that source. sync_seconds: between two polls.
    age_seconds: how long a polled value counts, unless the policy says.
    """

    sources: tuple[str, ...]
    api: Access
    prometheus: Access | None = None
    queries: Queries = Queries()
    sync_seconds: float = INTERVAL_SECONDS
    age_seconds: float = DEFAULT_AGE_SECONDS

    def __post_init__(self) -> None:
        """ValueError when values would grow old between two polls that both succeed."""
        if self.age_seconds < 2 * self.sync_seconds:
            raise ValueError(
                f"metrics count for {self.age_seconds:g} s and are polled every {self.sync_seconds:g} s; "
                "want an age of two polls at least"
            )


class MetricSource(Protocol):
    """Whatever has a newest table of metrics; replaced and never altered."""

    @property
    def current(self) -> Polled | Agents: ...


class AgentMetrics(Struct, frozen=True):
    """The agents' own hardware metrics: they stand in the state, so there is nothing to ask for."""

    current: Agents = Agents()


class TelemetrySources:
    """`async with` it inside a TaskGroup's life; `follow` starts its tasks; readers take `current`."""

    def __init__(self, settings: TelemetrySettings, clock: Callable[[], float]) -> None:
        self._clock, self._stack = clock, AsyncExitStack()
        self.api = Client(settings.api)
        self.policies = PolicyFollower(self.api, self._nudge)
        self.pollers: dict[str, Poller] = {}
        self._sources = [self._source(name, settings) for name in settings.sources]

    @property
    def current(self) -> Telemetry:
        return Telemetry(self.policies.current, tuple(source.current for source in self._sources))

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.api)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def loops(self) -> Iterator[tuple[str, Coroutine[None, None, None]]]:
        """What must run meanwhile, by name."""
        yield "follow the telemetry policies", self.policies.run()
        for name, poller in self.pollers.items():
            yield f"poll {name}", poller.run()

    def follow(self, group: asyncio.TaskGroup) -> Sequence[asyncio.Task[None]]:
        return [group.create_task(loop, name=name) for name, loop in self.loops()]

    def _source(self, name: str, settings: TelemetrySettings) -> MetricSource:
        if name == AGENTS:
            return AgentMetrics()
        return self.pollers.setdefault(name, self._poller(name, settings))

    def _poller(self, name: str, settings: TelemetrySettings) -> Poller:
        if name == custom_metrics.NAME:
            return self._polling(name, CustomMetrics(self.api).ask, settings)
        if settings.prometheus is None:
            raise ValueError(f"source {name}: its URL is missing")
        client = Client(settings.prometheus)
        self._stack.push_async_callback(client.close)
        return self._polling(name, Prometheus(client, settings.queries).ask, settings)

    def _polling(self, name: str, ask: Callable[[str], Awaitable[Samples]], settings: TelemetrySettings) -> Poller:
        return Poller(
            name,
            ask,
            self._wanted,
            interval_seconds=settings.sync_seconds,
            age_seconds=settings.age_seconds,
            clock=self._clock,
        )

    def _wanted(self) -> frozenset[str]:
        policies: Policies = self.policies.current
        return policies.metrics

    def _nudge(self) -> None:
        for poller in self.pollers.values():
            poller.nudge()
