"""Pairs that decisions ask to be measured: after the answer and never at its cost, once in a while each, and so many a
second."""

import asyncio
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import pytest

from extender.decider import MIN_INTERVAL_SECONDS, ProbeOnDemand
from extender.record_queues import MAX_PENDING, REQUEST_TTL_SECONDS, ProbeRequestQueue
from extender.worker_pool import WorkerPool
from leadsman.decision.decide import FilterResult, filter_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.state import keys
from leadsman.state.records import Heartbeat, Latency
from leadsman.state.snapshot import NodeState, Snapshot
from leadsman.state.store import Unavailable
from tests.memory_store import MemoryStore

BOUND = PodInfo("ns", "p", labels={"delay_ref": "5"})


@pytest.fixture
def workers():
    made = WorkerPool()
    yield made
    made.close()


def facts(now=100.0):
    """Three fresh nodes that measured nothing."""
    state = NodeState(heartbeat=Heartbeat(1, 1, 5.0), latency=Latency({}), changed_at=99.0)
    return DecisionInputs(Snapshot(dict.fromkeys(("ref", "a", "b"), state)), Policy(), now)


async def asked(asking: ProbeOnDemand, found: Any, result: FilterResult) -> None:
    asking.request_after_filter(BOUND, result, found)
    assert asking._task is not None
    await asking._task


async def test_a_pod_that_found_no_node_asks_for_the_pairs_that_may_let_it_pass(workers) -> None:
    told = []
    await asked(ProbeOnDemand(told.append, workers), facts(), filter_nodes(BOUND, ["a", "b"], facts()))
    assert told == [(("a", "ref"), ("b", "ref"))]


async def test_pods_that_got_nodes_ask_seldom_and_a_waiting_one_at_once(workers) -> None:
    told = []
    asking = ProbeOnDemand(told.append, workers)
    for now in (100.0, 100.0 + MIN_INTERVAL_SECONDS / 2, 100.0 + MIN_INTERVAL_SECONDS):
        await asked(asking, facts(now), FilterResult(("a",), {}))
    assert told == [(("a", "ref"),)] * 2
    await asked(asking, facts(100.1), filter_nodes(BOUND, ["a", "b"], facts(100.1)))
    assert len(told) == 3


async def test_what_goes_wrong_is_logged_and_ends_nothing(workers, caplog: pytest.LogCaptureFixture) -> None:
    without_what_is_needed = SimpleNamespace(now=100.0)
    asking = ProbeOnDemand(lambda pairs: None, workers)
    await asked(asking, without_what_is_needed, filter_nodes(BOUND, ["a"], facts()))
    assert "cannot choose pairs to probe: TypeError" in caplog.text


# How they are written.


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
