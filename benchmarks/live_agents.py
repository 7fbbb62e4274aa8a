"""Runs the simulator's agents on a real etcd, in real time: `python -m benchmarks.live_agents URL NODES JOIN_SECONDS`.

They are agents' own code but for packets, all in this process. Each has its own connections, lease and watch of probe
requests. A call that fails is made again, and a line says how many did so far. Runs until it is killed.
"""

import asyncio
import gc
import logging
import math
import resource
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from heapq import heappop

from agent.node_ownership import NodeAlreadyOwned
from agent.run import REQUESTS_SILENCE_SECONDS
from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.store import Store, StoreError
from tests.simulated_agents import ProbingSimulation, SyntheticNetwork

PEERS_PER_NODE = 16
CALL_TIMEOUT_SECONDS = 3.0
RETRY_WITHIN_SECONDS = 5.0
"""An agent's longest wait."""


class LiveAgents(ProbingSimulation):
    """Runs many agents in one process. failures: calls that etcd did not answer as they want it."""

    def __init__(self, etcd_url: str) -> None:
        super().__init__(SyntheticNetwork(seed=1), PEERS_PER_NODE, seed=1)
        self.failures = 0
        self._etcd = EtcdAccess((etcd_url,), call_timeout_seconds=CALL_TIMEOUT_SECONDS)
        self._running = set[asyncio.Task[None]]()

    async def start(self, name: str) -> None:
        self.join(name, 0.0)

    def store_for(self, name: str) -> Store:
        store = EtcdStore(self._etcd, silence_seconds=REQUESTS_SILENCE_SECONDS)
        self.schedule(self.now + self.rng.uniform(0, RETRY_WITHIN_SECONDS), lambda: self._watch(store, name))
        return store

    async def run(self, until: float) -> None:
        """Runs each agent at its time, side by side, as on separate nodes."""
        loop = asyncio.get_running_loop()
        began = loop.time() - self.now
        while self.now < until:
            self.now = loop.time() - began
            while self._queue and self._queue[0][0] <= self.now:
                task = loop.create_task(self._tried(heappop(self._queue)[2]))
                self._running.add(task)
                task.add_done_callback(self._running.discard)
            await asyncio.sleep(0.01)

    async def _tried(self, do: Callable[[], Awaitable[None]]) -> None:
        try:
            await do()
        except (StoreError, NodeAlreadyOwned) as error:  # One's own, whose response came too late.
            self.failures += 1
            print(f"{self.failures} calls failed, the last one by {error!r}", flush=True)
            self.schedule(self.now + self.rng.uniform(1.0, RETRY_WITHIN_SECONDS), do)

    async def _watch(self, store: Store, name: str) -> None:
        prefix = keys.probes_prefix(name)
        listing = await store.read_prefix(prefix)
        async for _ in store.watch(prefix, listing.revision + 1, listing.cluster_id):
            pass


async def run(etcd_url: str, nodes: int, join_seconds: float) -> None:
    agents = LiveAgents(etcd_url)
    for number in range(nodes):
        agents.schedule(number * join_seconds / nodes, partial(agents.start, f"node-{number:05}"))
    await agents.run(math.inf)


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    logging.basicConfig(level="ERROR")
    gc.disable()  # A full collection of thousands of agents stops them for a second, and their calls run late.
    asyncio.run(run(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
