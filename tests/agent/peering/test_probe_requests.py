"""Pairs that somebody asks to have measured now."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any, cast

import pytest

from agent.peering import probe_requests as module
from agent.peering.peer_refresh import PeerRefresher
from agent.peering.peer_selection import MAX_REQUESTED
from agent.peering.probe_requests import BURST_PROBES, MAX_SERVED, ProbeRequestHandler
from leadsman.state import keys
from leadsman.state.records import ProbeRequest, encode_record
from leadsman.state.store import ChangeBatch, Compacted, Put, Unavailable
from tests.agent.peering.conftest import PEERING, FakeProber, Ring
from tests.testbed import background


class World:
    def __init__(self, ring) -> None:
        self.ring, self.reported = ring, asyncio.Event()
        self.prober = prober = cast("Any", FakeProber())
        clock = lambda: ring.now  # noqa: E731
        self.neighbours = PeerRefresher(ring.store, "own", 4, PEERING, prober, lambda: None, clock, Random(1))
        self.requests = ProbeRequestHandler(ring.store, self.neighbours, prober, self.reported.set, clock, Random(1))
        self.neighbours.assumed_nodes = 0  # So that nothing waits for others.
        self.neighbours.ring_was_read.set()

    async def ask(self, node: str, target: str, value: bytes | None = None) -> None:
        data = encode_record(ProbeRequest(target)) if value is None else value
        await self.ring.store.write([Put(keys.probe_request_key(node, "request"), data)])


@pytest.fixture
async def world(ring: Ring, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(module, "BURST_INTERVAL_SECONDS", 0.001)
    await ring.fill(50)
    return World(ring)


@pytest.fixture
async def running(world: World) -> AsyncIterator[World]:
    async with background.running(world.requests.run()):
        yield world


async def reported(world) -> None:
    async with asyncio.timeout(60):
        await world.reported.wait()
    world.reported.clear()


async def test_a_request_is_probed_at_once_reported_and_kept(running: World) -> None:
    await running.ask("own", "node-00007")
    await reported(running)
    assert running.prober.probed == ["node-00007"] * BURST_PROBES
    assert "node-00007" in running.prober.peers
    assert running.requests.result_counts == {"accepted": 1}


@pytest.mark.parametrize(
    ("target", "result"), [("own", "self"), ("nobody", "unknown"), ("node-00009", "accepted")], ids=str
)
async def test_who_cannot_be_probed_is_not_and_is_counted(world: World, target: str, result: str) -> None:
    await world.requests.serve([target])
    assert world.requests.result_counts == {result: 1}
    assert bool(world.prober.probed) is (result == "accepted")


@pytest.mark.parametrize("value", [b"", b"\xff", b'{"v":1,"target":"../b"}', b'{"v":2,"target":"node-00001"}'])
async def test_a_request_that_cannot_be_read_is_none(running: World, value: bytes) -> None:
    await running.ask("own", "", value)
    await running.ask("own", "node-00008")
    await reported(running)
    assert set(running.prober.probed) == {"node-00008"}


async def test_a_flood_of_requests_is_measured_up_to_a_bound(world: World) -> None:
    await world.requests.serve([f"node-{number:05}" for number in range(50)])
    assert world.requests.result_counts == {"accepted": MAX_REQUESTED, "full": 50 - MAX_REQUESTED}
    assert len(world.prober.probed) == MAX_REQUESTED * BURST_PROBES


async def test_it_is_reported_although_the_target_does_not_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_MARGIN_SECONDS", -0.99)
    world.prober.answered = False
    await world.requests.serve(["node-00007"])
    assert world.reported.is_set()


async def test_a_store_that_comes_back_is_watched_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.ring.store.fail(Unavailable("down"))
    async with background.running(world.requests.run()):
        for _ in range(10):
            await asyncio.sleep(0)
        world.ring.store.heal()
        await world.ask("own", "node-00007")
        await reported(world)
    assert "agent cannot watch probe requests" in caplog.text


@pytest.mark.parametrize(("nodes", "seconds"), [(100, 0.5), (5_000, 25.0)])
async def test_all_agents_together_begin_to_watch_200_times_a_second(
    world: World, monkeypatch: pytest.MonkeyPatch, nodes: int, seconds: float
) -> None:
    """When the ring was read, and again when etcd comes back."""
    waits = list[float]()

    async def sleep(wait: float) -> None:
        waits.append(wait)
        if len(waits) == 200:
            raise asyncio.CancelledError

    world.neighbours.assumed_nodes = nodes
    world.ring.store.fail(Unavailable("down"))
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "sleep", sleep)
        with pytest.raises(asyncio.CancelledError):
            await world.requests.run()
    assert min(waits[::2]) < 0.1 * seconds < 0.9 * seconds < max(waits[::2]) <= seconds


async def test_a_history_that_etcd_has_dropped_is_no_problem(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watched = asyncio.Event()

    async def watch_what_is_gone(*_: object) -> AsyncIterator[ChangeBatch]:
        watched.set()
        raise Compacted("compacted up to revision 7")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(world.ring.store, "watch", watch_what_is_gone)
        task = asyncio.create_task(world.requests.run())
        async with asyncio.timeout(90):
            await watched.wait()
    await world.ask("own", "node-00007")
    await reported(world)
    task.cancel()
    assert "cannot watch" not in caplog.text


async def test_a_flood_of_requests_costs_a_bounded_number_of_reads(world: World) -> None:
    await world.requests.serve(f"stranger-{number}" for number in range(1_000))
    assert world.requests.result_counts == {"unknown": MAX_SERVED, "ignored": 1_000 - MAX_SERVED}
