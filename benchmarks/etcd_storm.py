"""Measures how thousands of agents come back to an etcd of one core. `python -m benchmarks.etcd_storm [--nodes 5000]`

All agents start within a second on an empty etcd; later etcd hangs, is away, or all agents restart at once. The agents
are their own code but for packets and hardware, in virtual time, because two cores cannot start thousands. etcd is
simulated: a queue that serves one call after another, each for twice as long as it kept a core of a real etcd busy. A
client waits 3 s for its answer; what it does not wait for is done all the same.
"""

import argparse
import asyncio
import gc
import logging
import selectors
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Any

from benchmarks.live_agents import CALL_TIMEOUT_SECONDS, LiveAgent, LiveAgents
from leadsman.runtime.text_table import align_columns
from leadsman.state import keys
from leadsman.state.store import ChangeBatch, Store, Unavailable, Unreachable
from tests.memory_store import MemoryStore

COST_SECONDS = {
    "write": 1.0e-3,
    "keep_alive": 0.4e-3,
    "read_ranges": 0.6e-3,
    "read_page": 0.6e-3,
    "read_prefix": 0.6e-3,
    "watch": 0.9e-3,
    "grant": 0.8e-3,
    "revoke": 0.8e-3,
}
COST_OF_A_RANGE_SECONDS = 0.1e-3
"""Twice the CPU of etcd 3.5.30 for one call of 32 clients that never pause, on one core of this machine."""


QUIET_SECONDS, GIVE_UP_SECONDS = 30, 600


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer when nothing is left to do."""

    def __init__(self) -> None:
        super().__init__(selectors.SelectSelector())
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._now = max(self._now, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


class QueuedEtcd:
    """One etcd for all agents.

    calls: begun so far, by method.
    """

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self.store, self.calls = MemoryStore(self._clock), Counter[str]()
        self.busy_seconds, self._free_at, self._is_there = 0.0, 0.0, asyncio.Event()
        self._gone = asyncio.Event()
        self._is_there.set()

    def hang(self, seconds: float) -> None:
        """Serves nobody for so long; what came waits."""
        self._free_at = max(self._clock(), self._free_at) + seconds

    def stop(self) -> None:
        """Takes no connection from now on, and ends all watches."""
        self._is_there.clear()
        self._gone.set()
        self._gone = asyncio.Event()
        self._free_at = self._clock()

    def start(self) -> None:
        self._is_there.set()

    async def served(self, name: str, do: Callable[[], Awaitable[Any]], ranges: int = 1) -> Any:
        if not self._is_there.is_set():
            raise Unreachable("refused")
        cost = COST_SECONDS[name] + COST_OF_A_RANGE_SECONDS * (ranges - 1)
        self.calls[name] += 1
        self.busy_seconds += cost
        self._free_at = max(self._clock(), self._free_at) + cost
        done = asyncio.ensure_future(self._done(self._free_at, do))
        try:
            return await asyncio.wait_for(asyncio.shield(done), CALL_TIMEOUT_SECONDS)
        except TimeoutError as error:
            done.add_done_callback(lambda late: late.exception())
            raise Unavailable("no response within 3 s") from error

    async def _done(self, when: float, do: Callable[[], Awaitable[Any]]) -> Any:
        await asyncio.sleep(when - self._clock())
        if not self._is_there.is_set():
            raise Unavailable("it went")
        return await do()

    async def watch(self, prefix: str, start: int, cluster_id: str = "") -> AsyncGenerator[ChangeBatch]:
        """Nobody asks for a pair here."""
        gone = self._gone
        await self.served("watch", _nothing)
        yield ChangeBatch((), start)
        await gone.wait()
        raise Unavailable("it went")


async def _nothing() -> None: ...


class QueuedStore:
    """What one agent sees of it."""

    def __init__(self, etcd: QueuedEtcd) -> None:
        self._etcd, self.watch = etcd, etcd.watch

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any, **named: Any) -> Any:
            ranges = len(arguments[0]) if name == "read_ranges" else 1
            return await self._etcd.served(name, lambda: getattr(self._etcd.store, name)(*arguments, **named), ranges)

        return call


class UnplacedAgent(LiveAgent):
    """An agent without a coordinate: working them out is a third of the time here, and changes no call."""

    async def _receive_replies(self) -> None:
        self.peer_refresher.report_new_peers()


class StormyAgents(LiveAgents):
    def __init__(self, etcd: QueuedEtcd) -> None:
        self.etcd = etcd
        super().__init__("http://simulated")

    def new_agent(self, name: str) -> LiveAgent:
        return UnplacedAgent(name, self)

    def new_store(self) -> Store:
        return QueuedStore(self.etcd)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000])
    rows: list[list[str]] = []
    logging.basicConfig(level="CRITICAL")
    gc.disable()
    for nodes in parser.parse_args().nodes:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(storms(nodes, rows))
    print("\n".join(align_columns([["nodes", "what", *HEADS], *rows])))


HEADS = ("settled after, s", "failed", "calls/s at most", "calls/s settled", "cores settled", "off the ring, at most")


async def storms(nodes: int, rows: list[list[str]]) -> None:
    etcd = QueuedEtcd()
    agents = StormyAgents(etcd)
    running = asyncio.ensure_future(agents.run(float("inf")))
    watched = Watched(agents, nodes, rows)

    def begin() -> None:
        for number in range(nodes):
            name = f"node-{number:05}"
            agents.schedule(agents.now + number / nodes, partial(agents.start, name))

    begin()
    await watched.until_settled("all start within a second, etcd is empty")
    etcd.hang(10.0)
    await watched.until_settled("etcd hangs for 10 s")
    etcd.stop()
    await asyncio.sleep(5.0)
    etcd.start()
    await watched.until_settled("etcd is away for 5 s")
    agents.stop()
    begin()
    await watched.until_settled("all agents restart at once")
    running.cancel()


class Watched:
    """Looks at the agents each second."""

    def __init__(self, agents: StormyAgents, nodes: int, rows: list[list[str]]) -> None:
        self._agents, self._nodes, self._rows = agents, nodes, rows

    async def until_settled(self, what: str) -> None:
        """Settled: for 30 s no call failed, all nodes are on the ring and all agents know about how many they are."""
        etcd, began = self._agents.etcd, self._agents.now
        failed, quiet, most, present = 0, 0, 0.0, [self._nodes]
        since, busy = etcd.calls.total(), etcd.busy_seconds
        while quiet < QUIET_SECONDS and self._agents.now - began < GIVE_UP_SECONDS:
            calls = etcd.calls.total()
            if quiet == 0:
                since, busy = calls, etcd.busy_seconds
            await asyncio.sleep(1.0)
            most = max(most, etcd.calls.total() - calls)
            seen = self._agents.seen()
            count = sum(seen.failures.values())
            failed += count
            ring = await etcd.store.read_prefix(keys.RING_PREFIX)
            is_quiet = not count and len(ring.items) == self._nodes and seen.sized == seen.claimed == self._nodes
            quiet = quiet + 1 if is_quiet else 0
            present.append(len(ring.items))
        settled = f"{self._agents.now - began - QUIET_SECONDS:.0f}" if quiet else "never"
        rate, cores = (etcd.calls.total() - since) / QUIET_SECONDS, (etcd.busy_seconds - busy) / QUIET_SECONDS
        figures = (failed, f"{most:.0f}", f"{rate:.0f}", f"{cores:.2f}", self._nodes - min(present))
        row = [str(self._nodes), what, settled, *map(str, figures)]
        print(row, flush=True)
        self._rows.append(row)


if __name__ == "__main__":
    main()
