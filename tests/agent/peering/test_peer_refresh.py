"""Reading the ring again and again: what a failure costs, what cuts a rest short, what is said of oneself."""

import asyncio
from random import Random
from typing import Any

import pytest

from agent.peering.peer_refresh import MAX_BACKOFF_SECONDS, MAX_USES_PER_READ, OwnCoordinate, PeerRefresher
from leadsman.network.vivaldi import Coordinate
from leadsman.state.records import RingEntry
from leadsman.state.store import StoreError, Unavailable, Unreachable
from tests.agent.peering.conftest import PEERING, FakeProber, Ring


class World:
    """falls_silent: (at, peer) of the next peer that falls silent during a pause, which ends then."""

    def __init__(self, ring) -> None:
        prober: Any = FakeProber()
        self.ring, self.prober, self.told = ring, prober, 0
        self.falls_silent: tuple[float, str] | None = None
        self.neighbours = PeerRefresher(
            ring.store, "own", 16, PEERING, prober, self.tell, lambda: ring.now, Random(1), pause=self.pause
        )

    def tell(self) -> None:
        self.told += 1

    async def pause(self, seconds: float) -> None:
        until = self.ring.now + seconds
        if self.falls_silent is not None and self.falls_silent[0] < until:
            until, peer = self.falls_silent
            self.prober.lost |= {peer}
            self.falls_silent = None
        await asyncio.sleep(until - self.ring.now)


@pytest.fixture
def world(ring: Ring) -> World:
    return World(ring)


@pytest.mark.parametrize(("nodes", "seconds"), [(100, 15), (1_000, 15), (2_000, 30), (5_000, 75)])
async def test_all_agents_together_read_the_ring_67_times_a_second_at_any_size(
    world: World, nodes: int, seconds: float
) -> None:
    await world.ring.fill(5)
    await world.neighbours.refresh()
    world.neighbours.assumed_nodes = nodes
    assert world.neighbours.refresh_seconds() == seconds


@pytest.mark.parametrize(("answered_after", "spread", "refresh"), [(0.005, 0.5, 15.0), (2.5, 25.0, 25.0)])
async def test_what_all_agents_ask_is_spread_by_how_long_etcd_took_to_answer(
    world: World, monkeypatch: pytest.MonkeyPatch, answered_after: float, spread: float, refresh: float
) -> None:
    """While a ring fills, what it shows is too little."""
    read_ranges, waits = world.ring.store.read_ranges, [answered_after]

    async def slow(ranges: Any) -> Any:
        world.ring.now += waits.pop() if waits else 0.0
        return await read_ranges(ranges)

    await world.ring.fill(5)
    monkeypatch.setattr(world.ring.store, "read_ranges", slow)
    await world.neighbours.refresh()
    assert await world.neighbours.spread() == pytest.approx(spread, rel=0.1)
    assert world.neighbours.refresh_seconds() == pytest.approx(refresh, rel=0.1)


async def test_new_neighbours_are_reported_once_when_all_have_answered(world: World) -> None:
    world.prober.answered = False
    await world.ring.fill(3)
    await world.neighbours.refresh()
    world.neighbours.report_new_peers()
    assert world.told == 0
    world.prober.answered = True
    world.neighbours.report_new_peers()
    world.neighbours.report_new_peers()
    assert world.told == 1
    await world.ring.put("another")
    await world.neighbours.refresh()
    world.neighbours.report_new_peers()
    assert world.told == 2


async def test_a_peer_that_falls_silent_cuts_the_rest_short_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    clockwork(world, monkeypatch)
    for peer in ("a", "b"):
        falls_at = world.ring.now + 7.0
        world.falls_silent = (falls_at, peer)
        await world.neighbours._rest(15.0)
        assert falls_at <= world.ring.now <= falls_at + 1.0
        before = world.ring.now
        await world.neighbours._rest(15.0)
        assert world.ring.now - before == pytest.approx(15.0)


async def test_a_lost_peer_that_comes_back_elsewhere_is_probed_there(world: World) -> None:
    """Another node may have its old address by then."""
    await world.ring.fill(40)
    await world.neighbours.refresh()
    lost = world.neighbours.selection.next_query(0.0).nodes[0]
    world.prober.lost = {lost}
    await world.ring.remove(lost)
    await world.neighbours.refresh()
    assert lost in world.prober.peers
    await world.ring.put(lost, RingEntry("10.0.9.9"))
    for _ in range(2):
        world.ring.now += 15.0
        await world.neighbours.refresh()
        assert world.prober.peers[lost].address == "10.0.9.9"


@pytest.mark.parametrize("error", [Unavailable("no answer"), Unreachable("refused")], ids=repr)
@pytest.mark.parametrize("peers", [None, 0, 5], ids=["unread", "empty", "five peers"])
async def test_the_ring_is_read_more_and_more_seldom_from_an_etcd_that_does_not_answer(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: StoreError,
    peers: int | None,
) -> None:
    """Who has read an empty ring does not know how many wait beside it. Peers are kept, and it is said once."""
    if peers is not None:
        await world.ring.fill(peers)
        await world.neighbours.refresh()
    shortest = world.neighbours.refresh_seconds()
    longest = shortest if isinstance(error, Unreachable) else MAX_BACKOFF_SECONDS
    waits = clockwork(world, monkeypatch, most=200)
    world.ring.store.fail(error)
    with pytest.raises(asyncio.CancelledError):
        await world.neighbours.run()
    assert world.neighbours.ring_was_read.is_set() is (peers is not None)
    assert len(world.prober.peers) == (peers or 0)
    assert sum("cannot read the ring" in record.message for record in caplog.records) == 1
    assert waits[0] <= shortest
    assert 0.9 * longest < max(waits[10:]) <= longest
    assert min(waits[10:]) < 0.2 * longest


def clockwork(world, monkeypatch, most: int = 1000) -> list[float]:
    """Sleeping moves the world's clock and takes no time; after `most` sleeps it cancels."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        world.ring.now += seconds
        if len(slept) > most:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return slept


# A node's own coordinate, from replies and from what peers say of themselves, however old or wrong.


LANDMARKS = {f"n{ms}": Coordinate((float(ms), 0.0, 0.0, 0.0), 0.01, 0.0, 0.1) for ms in (0, 10, 20, 30, 40, 50)}
RTTS = {name: abs(there.point[0] - 24.0) + 1.0 for name, there in LANDMARKS.items()}


def test_one_reading_of_a_coordinate_is_used_a_few_times_only() -> None:
    """Otherwise two nodes that read each other seldom would pass each other again and again."""
    one, other = OwnCoordinate(Random(1)), OwnCoordinate(Random(1))
    for each, times in ((one, 100), (other, MAX_USES_PER_READ)):
        each.on_peers_read(LANDMARKS)
        for _ in range(times):
            each.update("n0", 10.0)
    assert one.current == other.current


def test_two_stragglers_in_a_row_count_as_the_replies_before_them() -> None:
    def heard(rtt_ms: float) -> Coordinate:
        one = OwnCoordinate(Random(1))
        for _ in range(10):
            one.on_peers_read(LANDMARKS)
            for name in MAX_USES_PER_READ * list(LANDMARKS):
                one.update(name, RTTS[name])
        one.on_peers_read(LANDMARKS)
        for _ in range(2):
            one.update("n0", rtt_ms)
        return one.current

    assert heard(900.0) == heard(RTTS["n0"])
