"""Many agents on a virtual clock and one store in memory: what each costs, and how soon one that joins is at home.

Everything but the packets is the real thing: the neighbourhood, the coordinates, the reports, the records' bytes.
Probes are counted, not sent: a peer answers with the round trip of its place, a few times a reading.
"""

import heapq
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from itertools import count
from random import Random

from agent.peering.coordinates import USES
from agent.peering.neighbours import REFRESH_INTERVALS, Neighbours, Rhythm
from agent.progress import Progress
from agent.reporting import Records, Reporter
from agent.rtt.peer import Peer
from clusterstate.memory import MemoryStore
from clusterstate.records import Hardware, Identity, Latency, PeerLatency, RingEntry
from clusterstate.timing import Timing
from simulator.meter import Meter
from simulator.places import Places

FIRST_ANSWERS_SECONDS = 1.1
"""A new peer is probed within a second."""
_NOISE_RATIO = 0.01
RHYTHM = Rhythm(Timing(), 1.0, 30.0)


class World:
    """agents: by name. now: virtual seconds."""

    def __init__(self, places: Places, k: int, seed: int, rhythm: Rhythm = RHYTHM) -> None:
        self.places, self.k, self.rhythm, self.rng = places, k, rhythm, Random(seed)
        self.now = 0.0
        self.store = MemoryStore(clock=lambda: self.now)
        self.agents: dict[str, Agent] = {}
        self._queue: list[tuple[float, int, Callable[[], Awaitable[None]]]] = []
        self._serial = count()

    def join(self, name: str, within_seconds: float) -> "Agent":
        """An agent that starts at some moment of the next so many seconds."""
        agent = self.agents[name] = Agent(name, self)
        self.at(self.now + self.rng.uniform(0, within_seconds), agent.start)
        return agent

    async def leave(self, name: str) -> None:
        await self.agents.pop(name).reporter.close()

    def at(self, when: float, do: Callable[[], Awaitable[None]]) -> None:
        heapq.heappush(self._queue, (when, next(self._serial), do))

    async def run(self, until: float) -> None:
        while self._queue and self._queue[0][0] <= until:
            self.now, _, do = heapq.heappop(self._queue)
            await do()
        self.now = until

    def probed_by(self) -> Counter[str]:
        """How many agents probe each node."""
        found = Counter(peer for agent in self.agents.values() for peer in agent.peers)
        return Counter({name: found[name] for name in self.agents})


class Agent:
    """One agent without sockets. peers, interval_seconds: whom it probes, and how often each."""

    def __init__(self, name: str, world: World) -> None:
        self.name, self.joined_at = name, world.now
        self.meter = Meter(world.store)
        self.peers: dict[str, Peer] = {}
        self.interval_seconds = world.rhythm.probe_interval_seconds
        self.sent = 0.0
        self._world, self._counted_at = world, world.now
        self._rng = Random(world.rng.random())
        self.neighbours = Neighbours(
            self.meter, name, world.k, world.rhythm, self, self._report_soon, lambda: world.now, self._rng
        )
        self._rounds = count()
        progress = Progress({"all": lambda: next(self._rounds)}, 15.0, lambda: world.now)
        identity = Identity(f"pod-{name}", 0, "10.0.0.1", world.places.zone(name))
        self.reporter = Reporter(
            self.meter, name, identity, self.neighbours.timing, self._records, progress, self._rng, _never
        )

    async def start(self) -> None:
        self.joined_at = self._counted_at = self._world.now
        push = self._world.rhythm.timing.push_interval_seconds
        self._world.at(self._world.now + self._rng.uniform(0, push), self._report)
        await self._refresh()

    def probe(self, peers: Iterable[Peer], interval_seconds: float, window_seconds: float) -> None:
        self.count_probes()
        self.peers, self.interval_seconds = {peer.name: peer for peer in peers}, interval_seconds

    def known(self) -> Collection[str]:
        return [name for name in self.peers if name in self._world.agents]

    def silent(self) -> Collection[str]:
        return [name for name in self.peers if name not in self._world.agents]

    def count_probes(self) -> None:
        self.sent += (self._world.now - self._counted_at) * len(self.peers) / self.interval_seconds
        self._counted_at = self._world.now

    @property
    def _here(self) -> bool:
        return self._world.agents.get(self.name) is self

    async def _refresh(self) -> None:
        if not self._here:
            return
        await self.neighbours.refresh()
        self._world.at(self._world.now + FIRST_ANSWERS_SECONDS, self._hear)
        interval = REFRESH_INTERVALS * self._world.rhythm.timing.push_interval_seconds
        self._world.at(self._world.now + interval * self._rng.uniform(0.9, 1.1), self._refresh)

    async def _hear(self) -> None:
        for _ in range(USES):
            for name in self.known():
                self.neighbours.heard(name, self._rtt_ms(name))
        self.neighbours.tell_news()

    async def _report(self) -> None:
        if self._here:
            await self.reporter.report()
            push = self.neighbours.timing().push_interval_seconds
            self._world.at(self._world.now + push * self._rng.uniform(0.9, 1.1), self._report)

    async def _report_once(self) -> None:
        if self._here:
            await self.reporter.report()

    def _report_soon(self) -> None:
        self._world.at(self._world.now, self._report_once)

    def _records(self) -> Records:
        place = self._world.places.zone(self.name)
        latency = Latency({name: self._window(name) for name in self.known()})
        return {Latency: latency, Hardware: _HARDWARE, RingEntry: self.neighbours.entry("10.0.0.1", place, "")}

    def _window(self, name: str) -> PeerLatency:
        ms = round(self._rtt_ms(name), 3)
        return PeerLatency(30, 30, ms, ms, ms, 0.01, 0.5)

    def _rtt_ms(self, name: str) -> float:
        return self._world.places.rtt_ms(self.name, name) * (1 + abs(self._rng.gauss(0, _NOISE_RATIO)))


_HARDWARE = Hardware({"load1_per_cpu": 0.5})


async def _never(seconds: float) -> None:
    raise AssertionError("two agents of one name")
