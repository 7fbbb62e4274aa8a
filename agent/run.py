"""The agent's process: builds the parts, runs their loops as one group, and leaves without a trace.

Any loop that ends or fails ends the process, and kubelet starts a new one. Shutdown: not ready → loops cancelled →
lease revoked, within a time limit.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from random import Random
from typing import Any

from aiohttp import web

from agent import metrics
from agent.alarm import Alarm
from agent.app import create_app
from agent.fit import nearest_that_fit
from agent.hardware import metrics as hardware_metrics
from agent.hardware.monitor import HardwareMonitor
from agent.hardware.samples import Roots
from agent.peering import metrics as peering_metrics
from agent.peering.neighbours import Neighbours, Rhythm
from agent.peering.probing import Probing
from agent.peering.requests import Requests
from agent.peers import choose
from agent.pods import metrics as pod_metrics
from agent.pods.monitor import PodMonitor
from agent.progress import Progress
from agent.reporting import Records, Reporter
from agent.rewards import Cache
from agent.rtt import metrics as rtt_metrics
from agent.rtt.peer import Place
from agent.rtt.prober import Prober
from agent.settings import Settings
from clusterstate.etcd import EtcdStore
from clusterstate.records import Hardware, Identity, Latency, RingEntry
from clusterstate.store import StoreError

log = logging.getLogger(__name__)

LEAVE_WITHIN_SECONDS = 3.0


async def run(settings: Settings, stop: asyncio.Event, clock: Callable[[], float] = time.monotonic) -> None:
    """Until `stop`. Raises what ended a loop: agent.claim.Taken when another agent writes this node."""
    parts = Parts(settings, clock)
    async with _serving(parts), _store(parts):
        try:
            await _run_all(parts.loops(), stop)
        finally:
            await _leave(parts)


class Parts:
    """Everything an agent is made of, wired: what each does stands in its own module."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self.settings, self.clock = settings, clock
        self.store = EtcdStore(settings.etcd, silence_seconds=settings.timing.stale_seconds)
        self.alarm = Alarm()
        self.prober = Prober(settings.probing, Place(settings.zone, settings.rack), answered=self.heard)
        probing, how = Probing(self.prober, clock), settings.probing
        rhythm = Rhythm(settings.timing, how.interval_seconds, how.window_seconds, settings.probe_budget)
        self.neighbours = Neighbours(
            self.store, settings.node, settings.max_peers, rhythm, probing, self.alarm.ring, clock
        )
        self.requests = Requests(self.store, self.neighbours, probing, self.alarm.ring, clock)
        roots = Roots(str(settings.proc_root), str(settings.sys_root))
        self.hardware = HardwareMonitor(roots, clock=clock, interval_seconds=settings.timing.push_interval_seconds)
        self.cache = Cache(self.store, settings.node, lambda: self.reporter.held, Random())
        self.pods = self._pods()
        self.progress = Progress(self._rounds(), settings.timing.stale_seconds, clock)
        identity = Identity(settings.owner, 0, settings.address, settings.zone, settings.rack)
        self.reporter = Reporter(
            self.store,
            settings.node,
            identity,
            self.neighbours.timing,
            self.records,
            self.progress,
            Random(),
            pause=self.alarm.sleep,
        )

    def loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        always = {"probes": self.prober.run(), "hardware": self.hardware.run(), "reports": self.reporter.run()}
        if self.pods is not None:
            always["pods"] = self.pods.run()
        if self.settings.peers is not None:
            self.prober.set_peers(choose(self.settings.node, self.settings.peers, self.settings.max_peers).values())
            return always
        return always | {"peers": self.neighbours.run(), "requests": self.requests.run()}

    def heard(self, peer: str, rtt_ms: float) -> None:
        self.neighbours.heard(peer, rtt_ms)

    def records(self) -> Records:
        now = self.clock()
        first = self.neighbours.neighbourhood.requested
        return {
            Latency: nearest_that_fit(self.prober.latencies(now), first),
            Hardware: self.hardware.record(now),
            RingEntry: self.entry(),
        }

    def entry(self) -> RingEntry | None:
        """None with a static list: the ring is not used, and need not be writable."""
        who = self.settings
        return self.neighbours.entry(who.address, who.zone, who.rack) if who.peers is None else None

    def _pods(self) -> PodMonitor | None:
        who = self.settings
        if who.pods is None:
            return None
        return PodMonitor(
            who.node, who.pods, self.cache, lambda: who.timing.push_interval_seconds, self.clock, time.time
        )

    def _rounds(self) -> Mapping[str, Callable[[], int]]:
        rounds = {"probes": lambda: self.prober.rounds, "hardware": lambda: self.hardware.rounds}
        pods = self.pods
        return rounds if pods is None else rounds | {"pods": lambda: pods.rounds}


@contextlib.asynccontextmanager
async def _serving(parts: Parts) -> AsyncIterator[None]:
    registry = metrics.registry(
        lambda: rtt_metrics.families(parts.prober, parts.clock()),
        lambda: hardware_metrics.families(parts.hardware.latest),
        lambda: metrics.reports(parts.reporter),
        lambda: peering_metrics.families(parts.neighbours, parts.requests),
        lambda: pod_metrics.families(parts.pods, parts.cache) if parts.pods else (),
    )
    app = create_app(parts.settings, registry, parts.progress, parts.reporter)
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    host, _, port = parts.settings.listen.rpartition(":")
    await web.TCPSite(runner, host.strip("[]"), int(port)).start()
    log.info("agent of node %s: metrics on http://%s/metrics", parts.settings.node, parts.settings.listen)
    try:
        yield
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def _store(parts: Parts) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await parts.store.close()


async def _run_all(loops: Mapping[str, Coroutine[Any, Any, None]], stop: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(loop, name=name) for name, loop in loops.items()]
        await stop.wait()
        for task in tasks:
            task.cancel()


async def _leave(parts: Parts) -> None:
    """The node's records go with the lease. When etcd does not answer they go when the lease runs out."""
    with contextlib.suppress(StoreError, TimeoutError):
        async with asyncio.timeout(LEAVE_WITHIN_SECONDS):
            if parts.pods is not None:
                await asyncio.shield(parts.pods.close())
            await asyncio.shield(parts.reporter.close())
    log.info("agent of node %s: left", parts.settings.node)
