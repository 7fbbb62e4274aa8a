"""Every source that a process decides on, wired and followed: state, policy file, places, delays, telemetry."""

import contextlib
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Self

from msgspec import Struct
from prometheus_client.core import Metric

from apiserver.access import Access
from clusterstate.follower import Follower
from clusterstate.store import Store
from delays.chosen import Choice, Chosen
from facts.policy_file import PolicyFile
from facts.sources import NoRoles, NoTelemetry, Sources, Without
from places.cluster import Cluster
from telemetry.families import families
from telemetry.sources import TelemetrySettings, TelemetrySources


class Asked(Struct, frozen=True):
    """policy: None: the defaults. api: None: no API server, so no place of any workload is known. delays: sources
    besides the agents. telemetry: None: no telemetry policies are followed."""

    policy: Path | None = None
    api: Access | None = None
    delays: Choice = Choice()
    telemetry: TelemetrySettings | None = None


class Gathering:
    """`async with` it, run its tasks, and take `sources`. clock: monotonic seconds, for all of them.

    A ValueError (PolicyError, BadMatrix, BadNames) when files cannot be used at start.
    """

    def __init__(self, store: Store, asked: Asked, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._stack = clock, contextlib.AsyncExitStack()
        self.state, self.policy = Follower(store), PolicyFile(asked.policy)
        self.cluster = Cluster(asked.api, addresses=bool(asked.delays.goldpinger)) if asked.api else None
        addresses = self.cluster.addresses if self.cluster else None
        self.delays = Chosen(asked.delays, self.state, self.policy, lambda: addresses.current if addresses else {})
        self.telemetry = TelemetrySources(asked.telemetry, clock) if asked.telemetry else None
        self.sources = self._sources()

    async def __aenter__(self) -> Self:
        """BadAccess when the API server's access cannot be used."""
        if self.telemetry:
            await self._stack.enter_async_context(self.telemetry)
        if self.cluster:
            await self._stack.enter_async_context(self.cluster.client)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def tasks(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Name and loop of each, to run for ever."""
        yield "follow the state", self.state.run()
        yield "follow the policy file", self.policy.follow()
        yield from self.delays.tasks()
        if self.cluster:
            yield from self.cluster.tasks()
        if self.telemetry:
            yield from self.telemetry.loops()

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        yield from self.policy.families()
        yield from self.delays.families()
        if self.cluster:
            yield from self.cluster.families()
        if self.telemetry:
            yield from families(self.telemetry, self._clock)

    def _sources(self) -> Sources:
        return Sources(
            self.state,
            self.policy,
            self._clock,
            places=self.cluster.places if self.cluster else Without(),
            roles=self.cluster.roles if self.cluster else NoRoles(),
            delays=tuple(self.delays.delays),
            estimates=self.delays.estimator,
            beside=self.delays,
            telemetry=self.telemetry or NoTelemetry(),
        )
