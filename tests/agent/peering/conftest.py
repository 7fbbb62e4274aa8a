"""A ring in memory: entries put in the store as agents put them, and read as agents read them."""

from collections.abc import Sequence

import pytest

from leadsman.state import keys
from leadsman.state.records import RingCoordinate, RingEntry, encode_record
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


@pytest.fixture
def ring() -> Ring:
    return Ring()
