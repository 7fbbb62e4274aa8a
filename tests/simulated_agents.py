"""Simulates many agents on a virtual clock with one store in memory.

Everything but the packets is real: peer selection, coordinates, reports, the records' bytes. Probes are counted, not
sent: a peer answers with the network's round trip, a few times a read. `SyntheticNetwork` makes up a cluster of any
size.
"""

import asyncio
import heapq
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from hashlib import blake2b
from itertools import count
from math import hypot, isnan
from random import Random
from typing import Any, Protocol

from agent.node_ownership import NodeAlreadyOwned
from agent.peering.peer_refresh import MAX_USES_PER_READ, PeeringSettings, PeerRefresher
from agent.reporting import LoopLiveness, NodeRecords, Reporter
from agent.rtt.peer import Peer
from leadsman.state.records import Hardware, Identity, Latency, PeerLatency, RingEntry
from leadsman.state.report_timing import ReportTiming
from leadsman.state.store import Store
from tests.memory_store import MemoryStore

FIRST_REPLIES_SECONDS = 1.1
"""A new peer is probed within a second."""
_NOISE_RATIO = 0.01
ZONES = 12
ZONE_PLANE_MS = 20.0
PEERING_SETTINGS = PeeringSettings(ReportTiming(), 1.0, 30.0)


class ProbedNetwork(Protocol):
    """Answers probes."""

    def rtt_ms(self, one: str, other: str) -> float:
        """Round trip; NaN: no reply."""

    def zone(self, name: str) -> str:
        """The node's zone; "" unknown."""


class SyntheticNetwork:
    """A ProbedNetwork without a matrix: zones in a plane, racks in zones, links of hosts.

    Within a rack 0.05 to 0.15 ms, within a zone 0.2 to 0.6, between zones 1 to 25 ms: a cluster over one continent.
    Every name has a zone, a rack and a link, whether or not a node of that name exists.

    seed: of the zones' positions.
    """

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self._zones = [(rng.uniform(0, ZONE_PLANE_MS), rng.uniform(0, ZONE_PLANE_MS)) for _ in range(ZONES)]
        self._racks: dict[str, tuple[int, int, float]] = {}

    def rtt_ms(self, one: str, other: str) -> float:
        """Round trip between two nodes, the same in both directions."""
        (zone, rack, link), (other_zone, other_rack, other_link) = self._rack(one), self._rack(other)
        if zone != other_zone:
            (x, y), (other_x, other_y) = self._zones[zone], self._zones[other_zone]
            return 0.5 + hypot(x - other_x, y - other_y) + link + other_link
        return (0.0 if rack == other_rack else 0.15) + link + other_link

    def zone(self, name: str) -> str:
        return f"zone-{self._rack(name)[0]}"

    def _rack(self, name: str) -> tuple[int, int, float]:
        """Zone, rack in it, and the host's link: its share of a round trip in ms."""
        if name not in self._racks:
            number = int.from_bytes(blake2b(name.encode(), digest_size=6, person=b"places").digest(), "big")
            rack = number % 1_000_003
            self._racks[name] = (rack % ZONES, rack // ZONES % 40, 0.025 + (number >> 24) / (1 << 24) * 0.05)
        return self._racks[name]


class ProbingSimulation:
    """The agents, their store and the clock.

    agents: those that run, by name.
    now: virtual seconds.
    """

    def __init__(self, network: ProbedNetwork, k: int, seed: int, settings: PeeringSettings = PEERING_SETTINGS) -> None:
        self.network, self.k, self.settings, self.rng = network, k, settings, Random(seed)
        self.now = 0.0
        self.store = MemoryStore(clock=lambda: self.now)
        self.agents: dict[str, SimulatedAgent] = {}
        self._queue: list[tuple[float, int, Callable[[], Awaitable[None]]]] = []
        self._serial = count()

    def join(self, name: str, within_seconds: float) -> "SimulatedAgent":
        """Adds an agent that starts at a random moment within so many seconds."""
        agent = self.agents[name] = SimulatedAgent(name, self)
        self.schedule(self.now + self.rng.uniform(0, within_seconds), agent.start)
        return agent

    def store_for(self, name: str) -> Store:
        """The store that the agent of this name calls."""
        return self.store

    async def leave(self, name: str) -> None:
        """Stops an agent."""
        await self.agents.pop(name).reporter.close()

    def schedule(self, when: float, do: Callable[[], Awaitable[None]]) -> None:
        """Runs `do` at a virtual time."""
        heapq.heappush(self._queue, (when, next(self._serial), do))

    async def run(self, until: float) -> None:
        """Runs what is scheduled up to a virtual time."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _, do = heapq.heappop(self._queue)
            await do()
        self.now = until

    def probed_by(self) -> Counter[str]:
        """Number of agents that probe each node."""
        found = Counter(peer for agent in self.agents.values() for peer in agent.peers)
        return Counter({name: found[name] for name in self.agents})


class CountingStore:
    """Counts the calls to a store, and the bytes of keys and values. A deletion counts the bytes of its key."""

    def __init__(self, store: Store) -> None:
        self.calls = self.read_bytes = self.written_bytes = 0
        self._store = store

    def __getattr__(self, name: str) -> Any:
        """The store's method of this name, counted."""

        async def call(*arguments: Any, **named: Any) -> Any:
            result = await getattr(self._store, name)(*arguments, **named)
            self.calls += 1
            if name == "write":
                self.written_bytes += sum(len(each.key) + len(getattr(each, "value", b"")) for each in arguments[0])
            elif name.startswith("read_"):
                listings = result if isinstance(result, tuple) else (result,)
                self.read_bytes += sum(len(item.key) + len(item.value) for each in listings for item in each.items)
            return result

        return call


class SimulatedAgent:
    """One agent without sockets.

    peers: those that it probes, by name.
    interval_seconds: time between two probes to one peer.
    sent: number of probes so far.
    """

    def __init__(self, name: str, world: ProbingSimulation) -> None:
        self.name, self.joined_at = name, world.now
        self.meter = CountingStore(world.store_for(name))
        self.peers: dict[str, Peer] = {}
        self.interval_seconds = world.settings.probe_interval_seconds
        self.sent = 0.0
        self._world, self._counted_at = world, world.now
        self._rng = Random(world.rng.random())
        self.peer_refresher = PeerRefresher(
            *(self.meter, name, world.k, world.settings, self, self._report_soon, lambda: world.now, self._rng)  # type: ignore[arg-type]
        )
        self._one_report = asyncio.Lock()
        progress = LoopLiveness({}, 15.0, lambda: world.now)
        identity = Identity(f"pod-{name}", 0, "10.0.0.1", world.network.zone(name))
        self.reporter = Reporter(
            *(self.meter, name, identity, self.peer_refresher.timing, self._records, progress, self._rng),
            *(self.sleep, self.pause, self.spread),
        )

    async def start(self) -> None:
        self.joined_at = self._counted_at = self._world.now
        push = self._world.settings.timing.push_interval_seconds
        self._world.schedule(self._world.now + self._rng.uniform(0, push), self._report)
        await self._refresh()

    async def sleep(self, seconds: float) -> None:
        """Sleeps before the reporter tries again; on the virtual clock nothing fails but a claim."""
        raise NodeAlreadyOwned(f"agent {self.name} lost its claim: two agents share one name")

    async def spread(self) -> float:
        return 0.0

    async def pause(self, seconds: float) -> None:
        """Sleeps between two reports of the reporter's own loop, which does not run here."""
        raise NotImplementedError

    def set_peers(self, peers: Iterable[Peer]) -> None:
        self.peers = {peer.name: peer for peer in peers}

    def set_timing(self, interval_seconds: float, window_seconds: float) -> None:
        self.count_probes()
        self.interval_seconds = interval_seconds

    def probe_now(self, name: str) -> None:
        """Its probes are figures of the network, known at any time."""

    def measured_peers(self) -> Collection[str]:
        return [name for name in self.peers if self._answers(name)]

    def silent_peers(self) -> Collection[str]:
        return [name for name in self.peers if not self._answers(name)]

    def count_probes(self) -> None:
        self.sent += (self._world.now - self._counted_at) * len(self.peers) / self.interval_seconds
        self._counted_at = self._world.now

    @property
    def _is_running(self) -> bool:
        return self._world.agents.get(self.name) is self

    async def _refresh(self) -> None:
        if not self._is_running:
            return
        await self.peer_refresher.refresh()
        self._world.schedule(self._world.now + FIRST_REPLIES_SECONDS, self._receive_replies)
        pause = self.peer_refresher.refresh_seconds() * self._rng.uniform(0.9, 1.1)
        self._world.schedule(self._world.now + pause, self._refresh)

    async def _receive_replies(self) -> None:
        for _ in range(MAX_USES_PER_READ):
            for name in self.measured_peers():
                self.peer_refresher.own_coordinate.update(name, self._rtt_ms(name))
        self.peer_refresher.report_new_peers()

    async def _report(self) -> None:
        if self._is_running:
            await self._report_once()
            push = self.peer_refresher.timing().push_interval_seconds
            self._world.schedule(self._world.now + push * self._rng.uniform(0.9, 1.1), self._report)

    async def _report_once(self) -> None:
        if self._is_running:
            async with self._one_report:
                await self.reporter.report()

    def _report_soon(self) -> None:
        self._world.schedule(self._world.now, self._report_once)

    def _records(self) -> NodeRecords:
        rtts = {name: round(self._rtt_ms(name), 3) for name in self.measured_peers()}
        latency = Latency({name: PeerLatency(30, 30, ms, ms, ms, 0.01, 0.5) for name, ms in rtts.items()})
        return {Latency: latency, Hardware: _HARDWARE, RingEntry: self.peer_refresher.ring_entry("10.0.0.1")}

    def _answers(self, name: str) -> bool:
        return name in self._world.agents and not isnan(self._world.network.rtt_ms(self.name, name))

    def _rtt_ms(self, name: str) -> float:
        return self._world.network.rtt_ms(self.name, name) * (1 + abs(self._rng.gauss(0, _NOISE_RATIO)))


_HARDWARE = Hardware({"load1_per_cpu": 0.5})
