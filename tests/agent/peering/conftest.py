"""A ring in memory: entries put in the store as agents put them, and read as agents read them."""

from collections.abc import Collection, Iterable, Sequence

import pytest

from agent.peering.peer_refresh import PeeringSettings
from agent.rtt.peer import Peer
from leadsman.state import keys
from leadsman.state.records import RingCoordinate, RingEntry, encode_record
from leadsman.state.report_timing import ReportTiming
from leadsman.state.store import Delete, Put
from tests.memory_store import MemoryStore


def at(x: float, y: float = 0.0, error: float = 0.1) -> RingCoordinate:
    return RingCoordinate((x, y, 0.0, 0.0), 0.01, 0.0, error)


class Ring:
    """store: with an entry for each node put. now: what the clock says."""

    def __init__(self) -> None:
        self.now = 0.0
        self.store = MemoryStore(clock=lambda: self.now)

    async def put(self, name: str, entry: RingEntry | None = None) -> None:
        stated = entry or RingEntry(f"10.0.0.{len(name)}")
        await self.store.write([Put(keys.record_key(name, RingEntry), encode_record(stated))])

    async def fill(self, count: int) -> list[str]:
        names = [f"node-{number:05}" for number in range(count)]
        for name in names:
            await self.put(name)
        return names

    async def remove(self, *names: str) -> None:
        await self.store.write([Delete(keys.record_key(name, RingEntry)) for name in names])

    @staticmethod
    def after(own: str, names: Sequence[str]) -> list[str]:
        """The others in the order in which they follow on the ring."""
        distance = {
            name: (keys.ring_position(name) - keys.ring_position(own)) % keys.RING_SIZE for name in names if name != own
        }
        return sorted(distance, key=lambda name: distance[name])


PEERING = PeeringSettings(ReportTiming(), 1.0, 30.0)


class FakeProber:
    """Keeps what it is told. lost: peers that are silent. answered: whether the peers answer. probed: at once."""

    def __init__(self) -> None:
        self.peers: dict[str, Peer] = {}
        self.probed: list[str] = []
        self.lost: set[str] = set()
        self.answered = True

    def set_peers(self, peers: Iterable[Peer]) -> None:
        self.peers = {peer.name: peer for peer in peers}

    def set_timing(self, interval_seconds: float, window_seconds: float) -> None: ...

    def probe_now(self, name: str) -> None:
        self.probed.append(name)

    def measured_peers(self) -> Collection[str]:
        return self.peers if self.answered else ()

    def silent_peers(self) -> Collection[str]:
        return self.lost


@pytest.fixture
def ring() -> Ring:
    return Ring()
