"""A node's own coordinate, from replies and from what peers say of themselves, however old or wrong."""

from math import inf, nan
from random import Random

import pytest

from agent.peering.coordinates import USES, Coordinates
from topology import vivaldi
from topology.vivaldi import Coordinate


def line(ms: float, error: float = 0.1) -> Coordinate:
    return Coordinate((ms, 0.0, 0.0, 0.0), 0.01, 0.0, error)


def readings(one: Coordinates, peers: dict[str, Coordinate], rtts: dict[str, float], count: int) -> None:
    for _ in range(count):
        one.renewed(set(peers))
        for _ in range(USES):
            for name, there in peers.items():
                one.heard(name, rtts[name], there)


LANDMARKS = {f"n{ms}": line(float(ms)) for ms in (0, 10, 20, 30, 40, 50)}


def rtts(here: float) -> dict[str, float]:
    return {name: abs(there.point[0] - here) + 1.0 for name, there in LANDMARKS.items()}


def error(one: Coordinates, here: float) -> float:
    """The worst relative error over the honest."""
    truth = rtts(here)
    return max(abs(vivaldi.estimate_ms(one.own, LANDMARKS[n]) - ms) / ms for n, ms in truth.items() if ms > 5)


def test_a_node_that_joins_a_settled_network_is_at_home_after_four_readings() -> None:
    one = Coordinates(Random(1))
    readings(one, LANDMARKS, rtts(24.0), 4)
    assert error(one, 24.0) < 0.15


def test_a_node_that_moves_is_found_elsewhere() -> None:
    one = Coordinates(Random(1))
    readings(one, LANDMARKS, rtts(5.0), 20)
    readings(one, LANDMARKS, rtts(44.0), 60)
    assert error(one, 44.0) < 0.25


def test_one_reading_of_a_coordinate_is_used_a_few_times_only() -> None:
    """Otherwise two nodes that read each other seldom would pass each other again and again."""
    one = Coordinates(Random(1))
    for _ in range(100):
        one.heard("a", 10.0, line(0.0))
    after_many = one.own
    other = Coordinates(Random(1))
    for _ in range(USES):
        other.heard("a", 10.0, line(0.0))
    assert after_many == other.own


def test_two_nodes_that_read_each_other_seldom_agree_on_their_distance() -> None:
    one, other = Coordinates(Random(1)), Coordinates(Random(2))
    for _ in range(20):
        there, here = one.own, other.own
        readings(one, {"b": here}, {"b": 30.0}, 1)
        readings(other, {"a": there}, {"a": 30.0}, 1)
    assert vivaldi.estimate_ms(one.own, other.own) == pytest.approx(30.0, rel=0.1)


def test_two_stragglers_in_a_row_count_as_the_replies_before_them() -> None:
    def heard(rtt_ms: float) -> Coordinate:
        one = Coordinates(Random(1))
        readings(one, LANDMARKS, rtts(24.0), 10)
        one.renewed(set(LANDMARKS))
        for _ in range(2):
            one.heard("n0", rtt_ms, LANDMARKS["n0"])
        return one.own

    assert heard(900.0) == heard(rtts(24.0)["n0"])


@pytest.mark.parametrize("wrong", [0.0, -1.0, nan, inf, 1e9])
def test_a_round_trip_that_is_none_moves_nothing(wrong: float) -> None:
    one = Coordinates(Random(1))
    readings(one, LANDMARKS, rtts(24.0), 3)
    before = one.own
    for _ in range(5):
        one.renewed({"x"})
        one.heard("x", wrong, line(0.0))
    assert one.own == before
    one.renewed({"x"})
    one.heard("x", 24.0, line(0.0))
    assert one.own != before


@pytest.mark.parametrize(
    "there", [None, line(nan), line(inf), Coordinate((1.0, 2.0), 0.1), Coordinate((0.0,) * 4, -1.0)]
)
def test_a_peer_that_is_nowhere_moves_nothing(there: Coordinate | None) -> None:
    one = Coordinates(Random(1))
    one.heard("x", 10.0, there)
    assert one.own == vivaldi.origin().coordinate


@pytest.mark.parametrize("lie", [line(60_000.0, 0.0), line(-60_000.0, 0.0), Coordinate((0.0,) * 4, 60_000.0, 0.0, 0.0)])
def test_one_liar_among_its_peers_does_not_drag_a_node_away(lie: Coordinate) -> None:
    one = Coordinates(Random(1))
    peers, truth = {**LANDMARKS, "liar": lie}, {**rtts(24.0), "liar": 1.0}
    readings(one, LANDMARKS, rtts(24.0), 20)
    readings(one, peers, truth, 100)
    assert error(one, 24.0) < 0.3


def test_nothing_is_kept_of_who_is_no_peer_any_more() -> None:
    one = Coordinates(Random(1))
    for number in range(1000):
        one.renewed({f"n{number}"})
        one.heard(f"n{number}", 1.0, line(0.0))
    assert len(one._replies) <= 2


def test_a_coordinate_that_makes_no_sense_begins_anew_and_is_counted() -> None:
    one = Coordinates(Random(1))
    one.position = vivaldi.Position(line(nan))
    one.heard("a", 10.0, line(0.0))
    assert one.own == vivaldi.origin().coordinate
    assert one.resets == 1
