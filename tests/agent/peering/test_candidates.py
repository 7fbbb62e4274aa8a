"""Who is near, by coordinates alone."""

import pytest

from agent.peering.peer_selection import EXPIRY_SECONDS, MAX_CANDIDATES, Candidates, RingMember
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


def test_the_near_are_those_with_the_smallest_estimates() -> None:
    known = candidates(*(member(f"n{x}", x) for x in (9, 1, 5, 3, 7)))
    assert known.mutually_near(HERE, 3, (), (), 0.0) == ["n1", "n3", "n5"]


def test_who_was_not_read_of_just_now_may_have_left_and_is_not_near() -> None:
    known = candidates(member("old", 1))
    known.update([member("new", 5)], 15.0)
    assert known.mutually_near(HERE, 2, (), (), 15.0) == ["new"]


def test_who_is_a_peer_otherwise_takes_no_slot() -> None:
    assert candidates(member("a", 1), member("b", 2)).mutually_near(HERE, 1, (), {"a"}, 0.0) == ["b"]


def test_a_node_in_the_middle_of_all_is_near_to_its_own_nearest_only() -> None:
    """It says how far its near ones are, and who is farther does not crowd it."""
    known = candidates(member("hub", 2, reach_ms=1.0), member("far", 5))
    assert known.mutually_near(HERE, 1, (), (), 0.0) == ["far"]


def test_who_has_no_coordinate_or_no_reach_yet_is_not_near() -> None:
    assert candidates(member("new", None), member("blind", 1, reach_ms=None)).mutually_near(HERE, 2, (), (), 0.0) == []


def test_a_near_peer_stays_unless_another_is_clearly_nearer() -> None:
    known = candidates(member("held", 10), member("hardly", 9.5), member("clearly", 8))
    assert known.mutually_near(HERE, 1, {"held"}, {"clearly"}, 0.0) == ["held"]
    assert known.mutually_near(HERE, 1, {"held"}, (), 0.0) == ["clearly"]


def test_the_reach_is_the_distance_of_the_eighth_nearest() -> None:
    assert candidates(*(member(f"n{x}", x) for x in range(1, 20))).reach_ms(HERE) == pytest.approx(8.02)
    assert candidates(member("one", 3)).reach_ms(HERE) == pytest.approx(3.02)
    assert candidates(member("unplaced", None)).reach_ms(HERE) is None


def test_what_is_remembered_is_bounded_and_the_far_are_forgotten_first() -> None:
    known = candidates(*(member(f"n{x:03}", x) for x in range(200)), member("unplaced", None))
    known.trim(HERE, {"n199"}, 1.0)
    assert known.by_name.keys() == {f"n{x:03}" for x in range(MAX_CANDIDATES - 1)} | {"n199"}


def test_who_was_not_read_of_for_long_is_forgotten_unless_a_peer() -> None:
    known = candidates(member("a", 1), member("b", 2))
    known.trim(HERE, {"b"}, EXPIRY_SECONDS + 1)
    assert known.by_name.keys() == {"b"}


def test_strangers_that_the_nearest_name_are_worth_reading_of() -> None:
    known = candidates(
        member("a", 1, near=("x", "own", "b")), member("b", 2, near=("y", "x")), member("c", 3, near=("z",))
    )
    assert known.referrals(HERE, 2) == ["x", "y"]


def test_a_name_that_is_none_is_not_read_of() -> None:
    """The writer of an entry chooses the names in it."""
    assert candidates(member("a", 1, near=("../b", "B", "", "ok"))).referrals(HERE, 4) == ["ok"]


def test_a_coordinate_of_other_dimensions_is_none() -> None:
    odd = RingMember("a", RingEntry("10.0.0.1", coordinate=RingCoordinate((1.0, 2.0), 0.1)))
    assert candidates(odd).coordinate_of("a") is None
    assert candidates(odd).coordinate_of("nobody") is None


def test_this_node_is_no_candidate() -> None:
    assert candidates(member("own", 0)).by_name == {}
