"""Whom an agent probes, and who probes it."""

from collections import Counter
from random import Random
from statistics import mean, stdev

import pytest

from agent.peering import peer_refresh
from agent.peering.peer_selection import (
    MAX_REQUESTED,
    RANDOM_REPLACE_SECONDS,
    REQUESTED_SECONDS,
    Arc,
    PeerSelection,
    RingMember,
    RingQuery,
    RingSizeEstimator,
    estimate_nodes,
)
from leadsman.network import vivaldi
from leadsman.state import keys
from leadsman.state.records import RingCoordinate, RingEntry, encode_record
from leadsman.state.store import Put
from tests.agent.peering.conftest import Ring

HERE = vivaldi.Coordinate((0.0, 0.0, 0.0, 0.0), 0.01)


def neighbourhood(own: str, k: int = 16, seed: int = 1) -> PeerSelection:
    return PeerSelection(own, k, lambda: HERE, Random(seed))


async def refresh(ring, one: PeerSelection) -> set[str]:
    wanted = one.next_query(ring.now)
    one.apply_result(wanted, *await peer_refresh.read_ring(ring.store, wanted), ring.now)
    return {peer.name for peer in one.peers(ring.now)}


@pytest.mark.parametrize("count", [1, 2, 5, 16, 17])
async def test_up_to_k_and_one_nodes_every_pair_is_measured(ring: Ring, count: int) -> None:
    names = await ring.fill(count)
    for own in names:
        assert await refresh(ring, neighbourhood(own)) == set(names) - {own}


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 16])
async def test_beyond_there_are_k_peers_and_half_of_them_follow_on_the_ring(ring: Ring, k: int) -> None:
    names = await ring.fill(100)
    one = neighbourhood(names[0], k)
    for _ in range(5):
        peers = await refresh(ring, one)
        assert len(peers) == k
        assert names[0] not in peers
        assert set(ring.after(names[0], names)[: k - 2 * (k // 4)]) <= peers
        ring.now += 60


async def test_every_node_is_probed_by_half_of_k_by_the_ring_and_by_about_k_in_all(ring: Ring) -> None:
    names = await ring.fill(300)
    every = {own: neighbourhood(own, seed=number) for number, own in enumerate(names)}
    by_ring: Counter[str] = Counter()
    by_all: Counter[str] = Counter()
    for one in every.values():
        by_all.update(await refresh(ring, one))
        by_ring.update(one.ring_peers())
    assert set(by_ring.values()) == {8}
    assert max(by_all.values()) <= 2 * 16
    assert min(by_all.values()) >= 8


async def test_one_random_peer_is_replaced_in_a_minute_and_no_sooner(ring: Ring) -> None:
    names = await ring.fill(500)
    one = neighbourhood(names[0])
    await refresh(ring, one)
    kept = set(one._random)
    assert len(kept) == 4
    ring.now += RANDOM_REPLACE_SECONDS - 1
    await refresh(ring, one)
    assert set(one._random) == kept
    ring.now += 1
    await refresh(ring, one)
    assert len(set(one._random) & kept) == 3


async def test_near_peers_take_a_quarter_as_soon_as_they_are_known(ring: Ring) -> None:
    names = await ring.fill(100)
    for number in range(6):
        near = RingEntry("10.0.0.1", coordinate=RingCoordinate((0.1 * number, 0.0, 0.0, 0.0), 0.01), reach_ms=5.0)
        await ring.put(f"near-{number}", near)
    one = neighbourhood(names[0])
    one.add_requested(
        RingMember("near-0", RingEntry("", coordinate=RingCoordinate((0.0,) * 4, 0.01), near=("near-1", "near-2"))), 0
    )
    await refresh(ring, one)
    peers = await refresh(ring, one)
    assert {"near-0", "near-1", "near-2"} <= peers


async def test_a_pair_asked_for_is_measured_besides_the_others_for_a_while(ring: Ring) -> None:
    names = await ring.fill(100)
    one = neighbourhood(names[0])
    peers = await refresh(ring, one)
    wanted = next(name for name in names[1:] if name not in peers)
    assert one.add_requested(RingMember(wanted, RingEntry("10.0.0.9")), ring.now)
    assert {peer.name for peer in one.peers(ring.now)} == peers | {wanted}
    ring.now += REQUESTED_SECONDS - 1
    assert wanted in await refresh(ring, one)
    ring.now += 2
    assert one.requested == {wanted}
    assert wanted not in {peer.name for peer in one.peers(ring.now)} - set(one._random)


async def test_as_many_pairs_as_may_be_asked_for_and_asking_again_is_no_other(ring: Ring) -> None:
    one = neighbourhood("own")
    members = [RingMember(f"n{number}", RingEntry("10.0.0.1")) for number in range(MAX_REQUESTED + 1)]
    assert [one.add_requested(member, 0.0) for member in members] == [True] * MAX_REQUESTED + [False]
    assert one.add_requested(members[0], 1.0)
    assert one.add_requested(members[-1], REQUESTED_SECONDS + 0.5)


async def test_in_two_hours_of_rotation_the_names_that_a_metric_may_carry_stay_the_same(ring: Ring) -> None:
    names = await ring.fill(300)
    one, probed, labelled = neighbourhood(names[0]), set[str](), set[str]()
    for _ in range(120):
        probed |= await refresh(ring, one)
        labelled |= one.lasting_names
        ring.now += RANDOM_REPLACE_SECONDS
    assert len(probed) > 90
    assert labelled == set(ring.after(names[0], names)[:16])


# Arcs of the ring: who is read, and how many there seem to be.


def member(name: str) -> RingMember:
    return RingMember(name, RingEntry("10.0.0.1"))


async def arc(ring, own: str, size: int) -> Arc:
    return (await peer_refresh.read_ring(ring.store, RingQuery(keys.ring_position(own) + 1, 0, size, ())))[0]


@pytest.mark.parametrize("count", [1, 2, 3, 17, 18, 100])
async def test_an_arc_holds_those_who_follow_in_order_round_the_end(ring: Ring, count: int) -> None:
    names = await ring.fill(count)
    for own in names:
        found = await arc(ring, own, 16)
        others = [one.node for one in found.members if one.node != own]
        assert others == ring.after(own, names)[: len(others)]
        assert len(others) >= min(16, count - 1) - (count == 16)
        assert found.covers_ring is (count < 16)


async def test_entries_that_cannot_be_read_or_stand_elsewhere_are_nobody(ring: Ring) -> None:
    names = await ring.fill(3)
    await ring.store.write([Put(keys.record_key(names[0], RingEntry), b"\xff")])
    await ring.store.write([Put(f"{keys.RING_PREFIX}{0:016x}/node-00007", encode_record(RingEntry("10.0.0.1")))])
    assert {one.node for one in (await arc(ring, names[1], 16)).members} == set(names[1:])


@pytest.mark.parametrize("nodes", [30, 1000, 100_000])
def test_the_estimate_of_the_size_has_no_bias_and_the_error_that_is_stated(nodes: int) -> None:
    """Of arcs with 16 steps the standard error is 1 / sqrt(14), 27 %."""
    rng = Random(1)
    places = sorted(rng.randrange(keys.RING_SIZE) for _ in range(nodes))
    found = []
    for _ in range(4000):
        first = rng.randrange(nodes)
        length = (places[(first + 16) % nodes] - places[first]) % keys.RING_SIZE
        found.append(estimate_nodes([(16, length)]) / nodes)
    assert mean(found) == pytest.approx(1.0, abs=0.06)
    assert stdev(found) <= 0.33


def test_a_ring_that_is_seen_whole_is_counted_this_node_once() -> None:
    """Its own entry is there or is not yet."""
    census = RingSizeEstimator()
    nobody = Arc(0, (), True)
    census.add_arcs("a", Arc(0, (member("b"), member("c")), True), nobody)
    assert census.nodes == 3
    census.add_arcs("a", Arc(0, (member("b"), member("c"), member("a")), True), nobody)
    assert census.nodes == 3


def test_the_first_arc_elsewhere_is_no_sample_because_most_may_be_still_to_come() -> None:
    names = sorted((f"n{number}" for number in range(1000)), key=keys.ring_position)
    own = Arc(0, tuple(map(member, names[:16])), False)
    half = Arc(keys.ring_position(names[500]), tuple(map(member, names[500:516:2])), False)
    census = RingSizeEstimator()
    census.add_arcs("x", own, half)
    first = census.nodes
    census.add_arcs("x", own, half)
    assert first == estimate_nodes([(16, own.length)])
    assert census.nodes != first
