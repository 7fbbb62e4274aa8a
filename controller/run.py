"""The controller's process: watches, plans and acts while it holds the Lease, and gives the Lease up when it leaves."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from aiohttp import web
from msgspec import Struct
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import Metric

from apiserver.errors import ApiError
from apiserver.listing import Wanted
from apiserver.objects import Bare, Pod
from apiserver.requests import Client
from apiserver.resources import NODES, PODS
from apiserver.watching import Reflector
from clusterstate.etcd import EtcdStore
from clusterstate.transport import Access as StoreAccess
from controller.lease import Election, Timing
from controller.loop import Loop
from controller.metrics import Shown, create_app
from controller.missing import Missing
from controller.nodes import Nodes
from controller.rate import Rate
from controller.recorder import Recorder
from controller.status import Statuses
from controller.unbound import Unbound
from controller.wakeups import Waker
from controller.writer import Writer
from decision.remedies import Limits
from decision.telemetry.link import LABEL as POLICY_LABEL
from delays.chosen import Choice
from facts.gathering import Asked, Gathering
from places.pods import UNFINISHED
from telemetry.policies import PolicyFollower
from telemetry.sources import TelemetrySettings

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 1.0
"""A changed policy takes effect within this. A round that finds nothing to do costs no call."""

STALLED_SECONDS = 120.0
"""Past a round of patches that are throttled."""

LEAVE_WITHIN_SECONDS = 3.0
DEFAULT_PATCHES_PER_SECOND, PATCHES_BURST = 200.0, 50
EVENTS_PER_SECOND, EVENTS_BURST = 50.0, 100
MISSING_PER_SECOND, MISSING_BURST = 5.0, 50
TOUCHES_PER_SECOND = 0.2
ASKS_PER_SECOND, ASKS_BURST = 5.0, 10


class Settings(Struct, frozen=True):
    """telemetry: the API server, and where metrics come from. policy and delays: as the extender's, for wake-ups.

    lease: namespace and name. identity: of this process, in the Lease and in Events. patches_per_second: of nodes.
    dry_run: shows the plan, and writes nothing, not even the Lease.
    """

    etcd: StoreAccess
    telemetry: TelemetrySettings
    identity: str
    policy: Path | None = None
    delays: Choice = Choice()
    limits: Limits = Limits()
    lease: tuple[str, str] = ("leadsman", "leadsman-controller")
    timing: Timing = Timing()
    patches_per_second: float = DEFAULT_PATCHES_PER_SECOND
    listen: tuple[str, int] = ("0.0.0.0", 9003)
    dry_run: bool = False


async def run(settings: Settings, stop: asyncio.Event) -> None:
    """Until `stop`. OSError when the port is taken. ValueError when settings do not fit together or a file (policy,
    delays) cannot be used at start."""
    parts = Parts(settings)
    async with _closing(parts.store), parts.gathering, parts.client, parts.lease_client, _serving(parts):
        try:
            await _run_all(parts, stop)
        finally:
            await _leave(parts)
    log.info("left")


class Parts:
    """Everything a controller is made of, wired."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._turned_at: dict[str, float] = {}
        self.store = EtcdStore(settings.etcd)
        api = settings.telemetry.api
        self.gathering = Gathering(self.store, Asked(settings.policy, api, settings.delays, settings.telemetry))
        self.client = client = Client(api)
        self.lease_client = Client(api, deadline_seconds=settings.timing.call_seconds)
        self.nodes_seen = Reflector(client, Wanted(NODES, metadata_only=True), Bare)
        self.pods_seen = Reflector(client, Wanted(PODS, fields="spec.nodeName=,status.phase=Pending"), Pod)
        named = Wanted(PODS, labels=POLICY_LABEL, fields=UNFINISHED, metadata_only=True)
        self.named_seen = Reflector(client, named, Bare)
        self.nodes = Nodes(self.nodes_seen)
        self.facts = self.gathering.sources.facts
        self._act()

    def _act(self) -> None:
        """A dry run has nothing that writes."""
        who, acts = self.settings, not self.settings.dry_run
        self.election = Election(self.lease_client, *who.lease, who.identity, who.timing) if acts else None
        self.recorder = Recorder(self.client, Rate(EVENTS_PER_SECOND, EVENTS_BURST), who.identity) if acts else None
        patches = Rate(who.patches_per_second, PATCHES_BURST)
        self.writer = Writer(self.client, self.nodes, patches, self.leads) if acts else None
        self.statuses = Statuses(self.client, self.recorder, time.monotonic) if self.recorder else None
        tells = Rate(MISSING_PER_SECOND, MISSING_BURST)
        self.missing = Missing(self.recorder, tells, time.monotonic) if self.recorder else None
        self.unbound = Unbound(self.client, Rate(ASKS_PER_SECOND, ASKS_BURST), time.monotonic)
        self.loop = Loop(self.nodes, self.facts, self.writer, self.recorder, who.limits)
        self.waker = Waker(
            self.client if acts else None,
            lambda: self.pods_seen.current,
            lambda: list(self.nodes.current),
            self.facts,
            Rate(TOUCHES_PER_SECOND, 1),
        )

    def leads(self) -> bool:
        return self.election is None or self.election.leads

    @property
    def policies(self) -> PolicyFollower:
        assert self.gathering.telemetry is not None, "Settings always have it"
        return self.gathering.telemetry.policies

    def troubles(self) -> list[str]:
        """Why there is no good plan; [] when there is one."""
        followed: list[Reflector[Any]] = [self.nodes_seen, self.pods_seen, self.policies.reflector]
        missing = [each for each in followed if not each.loaded.is_set()]
        return [f"{each.wanted.resource.plural} are not listed: {each.last_error}" for each in missing]

    async def plan_and_act(self) -> None:
        if not self.leads():
            self.loop.forget()
        elif self.nodes_seen.loaded.is_set():
            await self.loop.once()

    async def wake(self) -> None:
        if not self.leads():
            self.waker.forget()
        elif self.pods_seen.loaded.is_set() and self.nodes_seen.loaded.is_set():
            await self.waker.round()

    async def count_failed_binds(self) -> None:
        if self.leads() and self.pods_seen.loaded.is_set():
            await self.unbound.round(self.pods_seen.current.values())

    async def tell_status(self) -> None:
        if self.statuses and self.leads():
            await self.statuses.round(self.policies.objects, self.facts())

    async def tell_of_missing_policies(self) -> None:
        if self.missing and not self.leads():
            self.missing.forget()
        elif self.missing and self.named_seen.loaded.is_set():
            pods = [pod.metadata for pod in self.named_seen.current.values()]
            self.missing.round(pods, self.policies.current)

    def families(self) -> Iterator[Metric]:
        yield from self.gathering.families()
        yield from self.unbound.families()
        if self.missing:
            yield from self.missing.families()

    def loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        steps = (
            self.plan_and_act,
            self.wake,
            self.count_failed_binds,
            self.tell_status,
            self.tell_of_missing_policies,
        )
        optional = {"elect": self.election, "tell Events": self.recorder}
        return {
            **dict(self.gathering.tasks()),
            "follow nodes": self.nodes_seen.run(),
            "follow pods that wait": self.pods_seen.run(),
            "follow pods that name a policy": self.named_seen.run(),
            **{step.__name__: self._every(step) for step in steps},
            **{name: part.run() for name, part in optional.items() if part is not None},
        }

    def stalled(self) -> list[str]:
        now = time.monotonic()
        return [name for name, at in self._turned_at.items() if now - at > STALLED_SECONDS]

    async def _every(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """For ever, never two at once. What is no ApiError ends the process."""
        while True:
            self._turned_at[step.__name__] = time.monotonic()
            await step()
            await asyncio.sleep(INTERVAL_SECONDS)


async def _run_all(parts: Parts, stop: asyncio.Event) -> None:
    """One ends, all end."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(loop, name=name) for name, loop in parts.loops().items()]
        await stop.wait()
        for task in tasks:
            task.cancel()


async def _leave(parts: Parts) -> None:
    """The next one need not wait for the Lease to run out."""
    if parts.election:
        with contextlib.suppress(ApiError, TimeoutError):
            async with asyncio.timeout(LEAVE_WITHIN_SECONDS):
                await asyncio.shield(parts.election.release())


@contextlib.asynccontextmanager
async def _closing(store: EtcdStore) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def _serving(parts: Parts) -> AsyncIterator[None]:
    registry = CollectorRegistry()
    registry.register(Shown(parts.loop, parts.waker, parts.writer, parts.recorder, parts.election, parts.families))
    Gauge("leadsman_build_info", "Always 1.", ["version"], registry=registry).labels(version("leadsman")).set(1)
    runner = web.AppRunner(create_app(registry, parts.loop, parts.troubles, parts.stalled), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, *parts.settings.listen).start()
        log.info("%s on port %d", "dry run, plan" if parts.settings.dry_run else "metrics", parts.settings.listen[1])
        yield
    finally:
        await runner.cleanup()
