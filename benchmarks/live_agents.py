"""Runs many agents on a real etcd, in real time and in one process, for `benchmarks.etcd_load`.

Each is an agent's own code but for packets and hardware: its loops of reports, of the ring and of probe requests, its
connections, its lease and its watch. A probe is answered with the round trip of an invented network.
"""

import asyncio
import gc
import logging
import math
import resource
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from heapq import heappop
from multiprocessing.connection import Connection
from typing import Any

from msgspec import Struct

from agent.node_ownership import NodeAlreadyOwned
from agent.peering.probe_requests import ProbeRequestHandler
from agent.rtt.peer import Peer
from agent.run import REQUESTS_SILENCE_SECONDS, Wakeup
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.store import Store, StoreError
from tests.simulated_agents import FIRST_REPLIES_SECONDS, ProbingSimulation, SimulatedAgent, SyntheticNetwork

PEERS_PER_NODE = 16
CALL_TIMEOUT_SECONDS = 3.0
TURN_SECONDS = 0.01
SIZED_RATIO = 0.5
"""The estimate of one agent is so far off at first."""


class AgentsSeen(Struct, frozen=True):
    """What became of the agents since they were last asked for.

    claimed: those that own their node now. sized: those that assume about as many nodes as there are.
    ended: those that gave up, because another agent owned their node.
    lag_seconds: the longest turn of their event loop; their calls waited for so long by no fault of etcd.
    """

    claimed: int
    sized: int
    ended: int
    failures: dict[str, int]
    median_seconds: float
    p99_seconds: float
    longest_seconds: float
    lag_seconds: float


class TimedStore:
    """Notes how long each call took, and which failed."""

    def __init__(self, store: Store, seconds: list[float], failures: Counter[str]) -> None:
        self._store, self._seconds, self._failures = store, seconds, failures
        self.watch = store.watch

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any, **named: Any) -> Any:
            began = asyncio.get_running_loop().time()
            try:
                return await getattr(self._store, name)(*arguments, **named)
            except StoreError as error:
                self._failures[type(error).__name__] += 1
                raise
            finally:
                self._seconds.append(asyncio.get_running_loop().time() - began)

        return call


class LiveAgent(SimulatedAgent):
    """One agent, whose loops run as in its own process."""

    def __init__(self, name: str, world: "LiveAgents") -> None:
        self._wakeup = Wakeup()
        super().__init__(name, world)
        self._requests = ProbeRequestHandler(
            *(world.store_for(name), self.peer_refresher, self, self._wakeup.wake, lambda: world.now)  # type: ignore[arg-type]
        )

    async def spread(self) -> float:
        return await self.peer_refresher.spread()

    async def start(self) -> None:
        """Runs until another agent owns the node."""
        async with asyncio.TaskGroup() as loops:
            for loop in (self.reporter.run(), self.peer_refresher.run(), self._requests.run()):
                loops.create_task(loop)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def pause(self, seconds: float) -> None:
        await self._wakeup.sleep(seconds)

    def set_peers(self, peers: Iterable[Peer]) -> None:
        super().set_peers(peers)
        self._world.schedule(self._world.now + FIRST_REPLIES_SECONDS, self._receive_replies)

    def _report_soon(self) -> None:
        self._wakeup.wake()


class LiveAgents(ProbingSimulation):
    """Runs the agents, and says what became of them."""

    def __init__(self, etcd_url: str) -> None:
        super().__init__(SyntheticNetwork(seed=1), PEERS_PER_NODE, seed=1)
        self._etcd = EtcdAccess((etcd_url,), call_timeout_seconds=CALL_TIMEOUT_SECONDS)
        self._stores: dict[str, Store] = {}
        self._seconds, self._failures, self._ended, self._lag = list[float](), Counter[str](), 0, 0.0
        self._running = set[asyncio.Future[None]]()

    async def start(self, name: str) -> None:
        agent = self.agents[name] = self.new_agent(name)
        try:
            await agent.start()
        except* NodeAlreadyOwned:
            self._ended += 1

    def store_for(self, name: str) -> Store:
        if name not in self._stores:
            self._stores[name] = TimedStore(self.new_store(), self._seconds, self._failures)
        return self._stores[name]

    def new_agent(self, name: str) -> LiveAgent:
        return LiveAgent(name, self)

    def new_store(self) -> Store:
        """Makes the connections of one agent."""
        return EtcdStore(self._etcd, silence_seconds=REQUESTS_SILENCE_SECONDS)

    def stop(self) -> None:
        """Kills all agents."""
        for task in self._running:
            task.cancel()
        self._queue.clear()
        self.agents.clear()

    async def run(self, until: float) -> None:
        """Runs each agent at its time, side by side, as on separate nodes."""
        loop = asyncio.get_running_loop()
        began = loop.time() - self.now
        while self.now < until:
            now = loop.time() - began
            self._lag, self.now = max(self._lag, now - self.now - TURN_SECONDS), now
            while self._queue and self._queue[0][0] <= self.now:
                self._begin(heappop(self._queue)[2])
            await asyncio.sleep(TURN_SECONDS)

    def _begin(self, do: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.ensure_future(do())
        self._running.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[None]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.result()

    def seen(self) -> AgentsSeen:
        """Tells what became of them since the last call."""
        seconds, failures, lag = sorted(self._seconds) or [0.0], dict(self._failures), self._lag
        self._seconds.clear()
        self._failures.clear()
        self._lag = 0.0
        agents = self.agents.values()
        return AgentsSeen(
            sum(agent.reporter.ownership is not None for agent in agents),
            sum(agent.peer_refresher.assumed_nodes >= SIZED_RATIO * len(agents) for agent in agents),
            self._ended,
            failures,
            seconds[len(seconds) // 2],
            seconds[len(seconds) * 99 // 100],
            seconds[-1],
            lag,
        )


def run_agents(etcd_url: str, nodes: int, join_seconds: float, asks: Connection) -> None:
    """Runs so many agents until the process is killed. Each message of `asks` is answered with an AgentsSeen."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    logging.basicConfig(level="CRITICAL")
    gc.disable()  # A full collection of thousands of agents stops them for a second, and their calls run late.
    asyncio.run(_run(etcd_url, nodes, join_seconds, asks))


async def _run(etcd_url: str, nodes: int, join_seconds: float, asks: Connection) -> None:
    agents = LiveAgents(etcd_url)

    def answer() -> None:
        asks.recv()
        asks.send(agents.seen())

    asyncio.get_running_loop().add_reader(asks.fileno(), answer)
    for number in range(nodes):
        agents.schedule(number * join_seconds / nodes, partial(agents.start, f"node-{number:05}"))
    await agents.run(math.inf)
