"""Arcs of the ring: who is read, and how many there seem to be."""

from random import Random
from statistics import mean, stdev

import pytest

from agent.peering import peer_refresh
from agent.peering.peer_selection import (
    Arc,
    RingMember,
    RingQuery,
    RingSizeEstimator,
    estimate_nodes,
)
from leadsman.state import keys
from leadsman.state.records import RingEntry, encode_record
from leadsman.state.store import Put
from tests.agent.peering.conftest import Ring


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
