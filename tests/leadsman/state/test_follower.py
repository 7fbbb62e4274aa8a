"""The follower on the store in memory; on a real etcd with real faults: test_etcd_faults."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable

import pytest

from leadsman.state.follower import RESUME_WITHIN_SECONDS, Follower
from leadsman.state.snapshot import Freshness
from leadsman.state.store import Unavailable
from tests.leadsman.state.conftest import put_beat, seen_beat
from tests.memory_store import MemoryStore
from tests.testbed.background import running
from tests.testbed.clock import Clock
from tests.waiting import until


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
    async with running(one.run()):
        yield one


async def fails(store: MemoryStore, follower: Follower) -> None:
    """The line is lost, and can be taken up again."""
    store.fail(Unavailable("away"))
    await until(lambda: follower.problem.text)
    store.heal()


async def test_it_says_when_the_first_view_is_there(store: MemoryStore, follower: Follower) -> None:
    await store.write([put_beat(1)])
    assert (follower.loaded.is_set(), follower.current.nodes, follower.age_seconds(1e9)) == (False, {}, float("inf"))
    await asyncio.wait_for(follower.loaded.wait(), 60)
    assert (seen_beat(follower), follower.age_seconds(100.0)) == (1, 0.0)


async def test_what_changed_while_the_line_was_lost_is_not_fresh_until_it_changes_again(
    store: MemoryStore, follower: Follower, clock: Clock
) -> None:
    """The line is taken up again without a listing."""
    await store.write([put_beat(1)])
    await until(lambda: seen_beat(follower) == 1)
    await fails(store, follower)
    await store.write([put_beat(2)])
    await until(lambda: seen_beat(follower) == 2)
    assert (follower.relists, follower.reconnects > 0, follower.problem.text) == (1, True, "")
    assert follower.current.nodes["a"].freshness(clock.now) is Freshness.PROVISIONAL
    await store.write([put_beat(3)])
    await until(lambda: seen_beat(follower) == 3)
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
    await store.write([put_beat(1, "old")])
    await until(lambda: seen_beat(follower, "old") == 1)
    await fails(store, follower)
    await store.write([put_beat(2, "new")])
    fault(store)
    await store.write([put_beat(3, "new")])
    await until(lambda: follower.relists == 2 and seen_beat(follower, "new") == 3)
    assert ("old" in follower.current.nodes) is (fault is MemoryStore.compact)
