"""Pairs that decisions ask to be measured: once in a while each, so many a second, and never in a decision's way."""

import asyncio
from contextlib import aclosing

import pytest

from extender.record_queues import MAX_PENDING, REQUEST_TTL_SECONDS, ProbeRequestQueue
from leadsman.state import keys
from leadsman.state.store import Unavailable
from tests.memory_store import MemoryStore


class World:
    def __init__(self) -> None:
        self.now = 0.0
        self.store = MemoryStore(clock=lambda: self.now)
        self.requests = ProbeRequestQueue(self.store, per_second=3, clock=lambda: self.now)


@pytest.fixture
def world() -> World:
    return World()


async def test_a_pair_wanted_by_a_thousand_pods_is_asked_for_once_in_a_while(world: World) -> None:
    for _ in range(1000):
        world.requests.enqueue([("edge-1", "cloud-1")])
        await world.requests.write()
    assert world.requests.written == 1
    world.now += REQUEST_TTL_SECONDS
    world.requests.enqueue([("edge-1", "cloud-1")])
    await world.requests.write()
    assert world.requests.written == 2


async def test_what_waits_is_bounded_and_what_is_dropped_is_counted(world: World) -> None:
    world.requests.enqueue([(f"edge-{number}", "cloud-1") for number in range(MAX_PENDING + 7)])
    assert world.requests.dropped == 7
    for _ in range(MAX_PENDING):
        await world.requests.write()
    assert world.requests.written == MAX_PENDING


async def test_the_loop_writes_at_once_when_asked_and_survives_the_store(world: World) -> None:
    world.store.fail(Unavailable("down"))
    running = asyncio.create_task(world.requests.run())
    world.requests.enqueue([("edge-1", "cloud-1")])
    for _ in range(10):
        await asyncio.sleep(0)
    assert world.requests.failures == 1
    world.store.heal()
    async with asyncio.timeout(60), aclosing(world.store.watch(keys.PROBES_PREFIX, 2)) as batches:
        while not (batch := await anext(batches)).changes:
            pass
    running.cancel()
    assert [change.key for change in batch.changes] == [f"{keys.PROBES_PREFIX}edge-1/cloud-1"]
