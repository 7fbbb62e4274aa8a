"""Who is near, by coordinates alone, and which peers that left are probed on."""

import pytest

from agent.peering.peer_selection import (
    EXPIRY_SECONDS,
    LOST_PEER_SECONDS,
    MAX_CANDIDATES,
    MAX_LOST_PEERS,
    Candidates,
    LostPeers,
    RingMember,
)
from agent.rtt.peer import Peer
from leadsman.network import vivaldi
from leadsman.state.records import RingCoordinate, RingEntry

HERE = vivaldi.Coordinate((0.0, 0.0, 0.0, 0.0), 0.01)


def member(name: str, x: float | None, reach_ms: float | None = 100.0, near: tuple[str, ...] = ()) -> RingMember:
    there = None if x is None else RingCoordinate((x, 0.0, 0.0, 0.0), 0.01)
    return RingMember(name, RingEntry("10.0.0.1", coordinate=there, reach_ms=reach_ms, near=near))


def candidates(*members: RingMember) -> Candidates:
    found = Candidates("own")
    found.update(members, 0.0)
    return found


ODD = RingMember("odd", RingEntry("10.0.0.1", coordinate=RingCoordinate((1.0, 2.0), 0.1), reach_ms=100.0))
HELD = (member("held", 10), member("hardly", 9.5), member("clearly", 8))


@pytest.mark.parametrize(
    ("members", "current", "taken", "near"),
    [
        ([member(f"n{x}", x) for x in (9, 1, 5)], (), (), ["n1", "n5"]),
        ([member("a", 1), member("b", 2)], (), {"a"}, ["b"]),
        # The node in the middle of a star says how far its near ones are, and who is farther does not crowd it.
        ([member("hub", 2, reach_ms=1.0), member("far", 5)], (), (), ["far"]),
        ([member("new", None), member("blind", 1, reach_ms=None), ODD, member("own", 0)], (), (), []),
        # A near peer stays unless another is clearly nearer.
        (HELD, {"held"}, {"clearly"}, ["held", "hardly"]),
        (HELD, {"held"}, (), ["clearly", "held"]),
    ],
)
def test_the_near_are_those_with_the_smallest_estimates_by_both_views(members, current, taken, near) -> None:
    assert candidates(*members).mutually_near(HERE, 2, current, taken, 0.0) == near


def test_who_was_not_read_of_just_now_may_have_left_and_is_not_near_and_is_forgotten_in_time() -> None:
    known = candidates(member("old", 1), member("peer", 2))
    known.update([member("new", 5)], EXPIRY_SECONDS)
    assert known.mutually_near(HERE, 2, (), (), EXPIRY_SECONDS) == ["new"]
    known.trim(HERE, {"peer"}, EXPIRY_SECONDS + 1)
    assert known.by_name.keys() == {"peer", "new"}


def test_what_is_remembered_is_bounded_and_the_far_are_forgotten_first() -> None:
    known = candidates(*(member(f"n{x:03}", x) for x in range(200)), member("unplaced", None))
    known.trim(HERE, {"n199"}, 1.0)
    assert known.by_name.keys() == {f"n{x:03}" for x in range(MAX_CANDIDATES - 1)} | {"n199"}


def test_strangers_that_the_nearest_name_are_worth_reading_of() -> None:
    known = candidates(
        member("a", 1, near=("x", "../b", "own", "b")), member("b", 2, near=("y", "x")), member("c", 3, near=("z",))
    )
    assert known.referrals(HERE, 2) == ["x", "y"]


ONE, TWO = Peer("one", "10.0.0.1"), Peer("two", "10.0.0.2")


def test_a_peer_that_fell_silent_before_it_left_is_probed_on_for_a_while() -> None:
    lost = LostPeers()
    assert lost.update([ONE, TWO], {"two"}, 0.0) == []
    assert lost.update([ONE], {"two"}, 10.0) == [TWO]
    assert lost.update([ONE], set(), 10.0 + LOST_PEER_SECONDS - 1) == [TWO]
    assert lost.update([ONE], {"two"}, 10.0 + LOST_PEER_SECONDS) == []


def test_a_lost_peer_that_is_selected_again_is_lost_no_longer() -> None:
    lost = LostPeers()
    lost.update([ONE, TWO], {"two"}, 0.0)
    lost.update([ONE], {"two"}, 10.0)
    assert lost.update([ONE, TWO], (), 20.0) == []
    assert lost.update([ONE], (), 30.0) == []


def test_of_many_lost_peers_the_last_ones_are_probed() -> None:
    lost, many = LostPeers(), [Peer(f"n{number}", f"10.0.1.{number}") for number in range(20)]
    lost.update(many, {peer.name for peer in many}, 0.0)
    assert lost.update([], {peer.name for peer in many}, 10.0) == many[-MAX_LOST_PEERS:]
