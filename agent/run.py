"""The agent's process: builds the parts, runs their loops as one group, and leaves without a trace.

Any loop that ends or fails ends the process, and kubelet starts a new one. Shutdown: not ready → loops cancelled →
lease revoked, within a time limit.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from random import Random
from typing import Any

from aiohttp import web

from agent import metrics
from agent.app import create_app
from agent.fit import nearest_that_fit
from agent.hardware import metrics as hardware_metrics
from agent.hardware.monitor import HardwareMonitor
from agent.hardware.samples import Roots
from agent.peers import choose, registered
from agent.progress import Progress
from agent.reporting import Records, Reporter
from agent.rtt import metrics as rtt_metrics
from agent.rtt.peer import Peer, Place
from agent.rtt.prober import Prober
from agent.settings import Settings
from clusterstate.etcd import EtcdStore
from clusterstate.follower import Follower
from clusterstate.records import Hardware, Identity, Latency
from clusterstate.store import StoreError
from clusterstate.timing import Timing, for_nodes

log = logging.getLogger(__name__)

LEAVE_WITHIN_SECONDS = 3.0
PEERS_EVERY_SECONDS = 1.0


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
        self.follower = Follower(self.store, clock=clock)
        self.prober = Prober(settings.probing, Place(settings.zone, settings.rack))
        roots = Roots(str(settings.proc_root), str(settings.sys_root))
        self.hardware = HardwareMonitor(roots, clock=clock, interval_seconds=settings.timing.push_interval_seconds)
        self.progress = Progress(self._rounds(), settings.timing.stale_seconds, clock)
        identity = Identity(settings.owner, 0, settings.address, settings.zone, settings.rack)
        self.reporter = Reporter(
            self.store, settings.node, identity, self.timing, self.records, self.progress, Random()
        )

    def loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        always = {"probes": self.prober.run(), "hardware": self.hardware.run(), "reports": self.reporter.run()}
        if self.settings.peers is not None:
            self.probe(self.settings.peers)
            return always
        return always | {"membership": self.follower.run(), "peers": self._follow_peers()}

    def probe(self, candidates: Iterable[Peer]) -> None:
        self.prober.set_peers(choose(self.settings.node, candidates, self.settings.max_peers).values())

    def timing(self) -> Timing:
        """P stretches with the number of nodes that the state names."""
        return for_nodes(self.settings.timing, len(self.follower.current.nodes))

    def records(self) -> Records:
        now = self.clock()
        return {Latency: nearest_that_fit(self.prober.latencies(now)), Hardware: self.hardware.record(now)}

    def _rounds(self) -> Mapping[str, Callable[[], int]]:
        return {"probes": lambda: self.prober.rounds, "hardware": lambda: self.hardware.rounds}

    async def _follow_peers(self) -> None:
        """A membership that cannot be read keeps the peers it had: a failed list never means "no peers"."""
        known: object = None
        while True:
            if known is not self.follower.current:
                known = self.follower.current
                self.probe(registered(self.follower.current))
            await asyncio.sleep(PEERS_EVERY_SECONDS)


@contextlib.asynccontextmanager
async def _serving(parts: Parts) -> AsyncIterator[None]:
    registry = metrics.registry(
        lambda: rtt_metrics.families(parts.prober, parts.clock()),
        lambda: hardware_metrics.families(parts.hardware.latest),
        lambda: metrics.reports(parts.reporter),
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
            await asyncio.shield(parts.reporter.close())
    log.info("agent of node %s: left", parts.settings.node)
