"""The follower on the store in memory; on a real etcd with real faults: test_etcd_faults."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable

import pytest

from leadsman.state import keys
from leadsman.state.follower import RESUME_WITHIN_SECONDS, Follower
from leadsman.state.records import Heartbeat, encode_record
from leadsman.state.snapshot import Freshness
from leadsman.state.store import Put, Unavailable
from tests.memory_store import MemoryStore
from tests.waiting import until


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Hasty(random.Random):
    """Chance that always falls on the shortest pause."""

    def uniform(self, a: float, b: float) -> float:
        return 0.001


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def follower(store: MemoryStore, clock: Clock) -> AsyncIterator[Follower]:
    one = Follower(store, clock=clock, rng=Hasty())
    task = asyncio.create_task(one.run())
    yield one
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def beat(store: MemoryStore, seq: int, node: str = "a") -> int:
    record = Heartbeat(epoch=1, seq=seq, push_interval_seconds=5)
    return await store.write([Put(keys.record_key(node, Heartbeat), encode_record(record))])


def seq(follower: Follower, node: str = "a") -> int | None:
    state = follower.current.nodes.get(node)
    return None if state is None or state.heartbeat is None else state.heartbeat.seq


async def test_it_says_when_the_first_view_is_there(store: MemoryStore, follower: Follower) -> None:
    await beat(store, 1)
    assert (follower.loaded.is_set(), follower.current.nodes, follower.age_seconds(1e9)) == (False, {}, float("inf"))
    await asyncio.wait_for(follower.loaded.wait(), 60)
    assert (seq(follower), follower.age_seconds(100.0)) == (1, 0.0)


async def test_a_lost_line_is_taken_up_again_without_a_listing(store: MemoryStore, follower: Follower) -> None:
    await beat(store, 1)
    await until(lambda: seq(follower) == 1)
    store.fail(Unavailable("away"))
    await until(lambda: follower.problem.text)
    store.heal()
    await beat(store, 2)
    await until(lambda: seq(follower) == 2)
    assert (follower.relists, follower.reconnects > 0, follower.problem.text) == (1, True, "")


async def test_what_changed_while_the_line_was_lost_is_not_fresh_until_it_changes_again(
    store: MemoryStore, follower: Follower, clock: Clock
) -> None:
    await beat(store, 1)
    await until(lambda: seq(follower) == 1)
    store.fail(Unavailable("away"))
    await until(lambda: follower.problem.text)
    store.heal()
    await beat(store, 2)
    await until(lambda: seq(follower) == 2)
    assert follower.current.nodes["a"].freshness(clock.now) is Freshness.PROVISIONAL
    await beat(store, 3)
    await until(lambda: seq(follower) == 3)
    assert follower.current.nodes["a"].freshness(clock.now) is Freshness.FRESH


async def test_a_line_lost_for_long_begins_with_a_listing(store: MemoryStore, follower: Follower, clock: Clock) -> None:
    await until(follower.loaded.is_set)
    store.fail(Unavailable("away"))
    await until(lambda: follower.problem.text)
    clock.now += RESUME_WITHIN_SECONDS + 1
    store.heal()
    await until(lambda: follower.relists == 2)


@pytest.mark.parametrize("fault", [MemoryStore.compact, MemoryStore.wipe])
async def test_a_history_that_is_gone_means_a_new_listing(
    store: MemoryStore, follower: Follower, fault: Callable[[MemoryStore], None]
) -> None:
    await beat(store, 1, "old")
    await until(lambda: seq(follower, "old") == 1)
    store.fail(Unavailable("away"))
    await until(lambda: follower.problem.text)
    store.heal()
    await beat(store, 2, "new")
    fault(store)
    await beat(store, 3, "new")
    await until(lambda: follower.relists == 2 and seq(follower, "new") == 3)
    assert ("old" in follower.current.nodes) is (fault is MemoryStore.compact)
