"""The delay history: what it keeps, for how long, in how much memory."""

import random
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.api.delay_table import DelayTable
from extender.api.history import (
    HALF_HOURS,
    MINUTES,
    DelayHistory,
    NodeRing,
    NodeShift,
    PairRing,
    began_at,
    is_notable,
    node_shifts_ms,
)
from extender.api.requests import from_iso

BEGAN = 1_700_000_000.0 // 3600 * 3600


def table(nodes: int, peers: int, moved_ms: float = 0.0, step: int = 1) -> DelayTable:
    """Node 0 is farther by moved_ms. Each measures the next ones, `step` apart, in 10 ms and its number."""
    source = np.repeat(np.arange(nodes), peers)
    target = (source + step * np.tile(np.arange(1, peers + 1), nodes)) % nodes
    order = np.lexsort((target, source))
    source, target = source[order], target[order]
    rtt_ms = 10.0 + (source + target) % 7 + moved_ms * ((source == 0) | (target == 0))
    return DelayTable(tuple(f"edge-{at}" for at in range(nodes)), source, target, rtt_ms, np.full(len(source), 0.1))


def test_a_node_that_moved_is_named_with_when_it_did() -> None:
    history = DelayHistory(BEGAN)
    for minute in range(30):
        history.add(BEGAN + 60 * minute, table(20, 8, 35.0 * (minute >= 12)))
    (shift,) = history.shifts
    assert shift.node == "edge-0"
    assert shift.shift_ms == pytest.approx(35, rel=0.001)
    assert shift.since == BEGAN + 60 * 12
    assert history.steady == {f"edge-{at}" for at in range(1, 20)}


def test_a_node_that_came_back_has_not_moved() -> None:
    history = DelayHistory(BEGAN)
    for minute in range(10):
        history.add(BEGAN + 60 * minute, table(20, 8, 35.0 * (3 <= minute < 6)))
    assert history.shifts == ()


def test_peers_that_change_hide_no_shift_within_their_time() -> None:
    history = DelayHistory(BEGAN)
    for minute in range(20):
        history.add(BEGAN + 60 * minute, table(20, 8, 35.0 * (minute >= 15), step=1 + (minute >= 8) * 2))
    assert [shift.node for shift in history.shifts] == ["edge-0"]


def test_a_node_has_an_hour_of_minutes_and_48_hours_of_half_hours() -> None:
    history = DelayHistory(BEGAN)
    for minute in range(0, 60 * 50, 15):
        history.add(BEGAN + 60 * minute, table(6, 5))
    moments = [moment.at for moment in history.of_node("edge-3")]
    assert moments == sorted(moments)
    assert from_iso(moments[-1]) - from_iso(moments[0]) == pytest.approx(48 * 3600, abs=3600)
    assert len(moments) <= MINUTES + HALF_HOURS
    assert all(moment.rtt_ms is not None for moment in history.of_node("edge-3"))


def test_of_a_pair_the_slower_direction_is_kept_for_an_hour() -> None:
    history = DelayHistory(BEGAN)
    first = table(6, 5)
    history.add(BEGAN, first)
    row = int(first.rows_of(np.array([2]), np.array([1]))[0])
    slower = DelayTable(first.names, first.source, first.target, first.rtt_ms.copy(), first.jitter_ms)
    slower.rtt_ms[row] = 99.0
    history.add(BEGAN + 60, slower)
    assert [moment.rtt_ms for moment in history.of_pair("edge-1", "edge-2")] == pytest.approx([13.0, 99.0], rel=0.001)
    assert history.of_pair("edge-1", "nobody") == []


@pytest.mark.parametrize("minutes_apart", [1, 30])
def test_between_two_moments_one_slow_node_accuses_itself_alone(minutes_apart: int) -> None:
    """Also where only half-hours are kept. By medians over peers all ten would seem to have moved."""
    history, moved = DelayHistory(BEGAN), 5
    assert history.compare(BEGAN, BEGAN) is None
    for minute in range(10):
        history.add(BEGAN + 60 * minutes_apart * minute, table(10, 9, 35.0 * (minute >= moved)))
    found = history.compare(BEGAN + 60 * minutes_apart * (moved - 1) + 20, BEGAN + 3600 * 90)
    assert found is not None
    begin, end, by_node = found
    assert (begin, end) == (BEGAN + 60 * minutes_apart * (moved - 1), BEGAN + 60 * minutes_apart * 9)
    assert by_node.keys() == {f"edge-{at}" for at in range(10)}
    changes = {node: change for node, (_, _, change) in by_node.items() if abs(change or 0) >= 0.1}
    assert changes == {"edge-0": pytest.approx(35, rel=0.01)}


def test_it_takes_at_most_30_mib_at_5000_nodes() -> None:
    history = DelayHistory(BEGAN)
    for minute, step in enumerate((1, 7)):
        history.add(BEGAN + 1800 * minute, table(5000, 33, step=step))
    assert 20 << 20 < history.held_bytes <= 30 << 20


def test_a_pair_that_was_measured_longest_ago_makes_room() -> None:
    ring = PairRing(1000, MINUTES, 100)
    for minute in range(3):
        source = np.arange(60) + 60 * minute
        ring.add(float(minute), source, source + 500, np.full(60, 10.0 + minute))
    assert np.isnan(ring.of(0, 500)).all()
    assert ring.of(179, 679)[-1] == pytest.approx(12.0, rel=0.001)
    assert ring.of(99, 599)[1] == pytest.approx(11.0, rel=0.001), "younger ones stay while there is room"


def test_more_pairs_than_there_is_room_for_are_left_out() -> None:
    ring, source = PairRing(1000, MINUTES, 100), np.arange(150)
    ring.add(0.0, source, source + 500, np.full(150, 10.0))
    assert ring.of(99, 599)[0] == pytest.approx(10.0, rel=0.001)
    assert np.isnan(ring.of(100, 600)).all()


def test_a_round_trip_is_kept_to_a_thirtieth_of_a_percent() -> None:
    ring = PairRing(10, MINUTES, 100)
    for at, rtt_ms in enumerate((0.001, 0.0513, 1.0, 35.2, 59_999.0)):
        ring.add(float(at), np.array([1]), np.array([2]), np.array([rtt_ms]))
        assert ring.of(1, 2)[-1] == pytest.approx(rtt_ms, rel=0.0002)


def test_a_ring_forgets_the_oldest_moment() -> None:
    ring = NodeRing(3)
    for at in range(5):
        ring.add(float(at + 1), np.full(2, float(at)))
    assert ring.times == [3.0, 4.0, 5.0]
    assert [value for _, value in ring.of(1)] == [2.0, 3.0, 4.0]
    assert ring.median_of_last(3).tolist()[:2] == [3.0, 3.0]


@given(nodes=st.integers(5, 30), shift_ms=st.floats(-80, 80), seed=st.integers(0, 1000))
def test_a_node_that_moved_alone_is_the_only_one_that_did(nodes: int, shift_ms: float, seed: int) -> None:
    pairs = list(permutations(range(nodes), 2))
    moved = random.Random(seed).randrange(nodes)
    one, other = np.array(pairs).T
    change = np.array([shift_ms if moved in pair else 0.0 for pair in pairs])
    shifts = node_shifts_ms(one, other, change, nodes)
    assert shifts[moved] == pytest.approx(shift_ms)
    assert np.delete(shifts, moved) == pytest.approx(0, abs=1.0), "below what counts as a shift"


def test_of_three_nodes_nobody_can_tell_which_one_moved() -> None:
    one, other = np.array(list(permutations(range(3), 2))).T
    assert np.isnan(node_shifts_ms(one, other, np.full(6, 9.0), 3)).all()


def test_a_pair_without_a_value_says_nothing() -> None:
    one, other = np.array(list(permutations(range(6), 2))).T
    assert np.isnan(node_shifts_ms(one, other, np.full(30, np.nan), 6)).all()


@pytest.mark.parametrize(
    ("shift_since_ms", "place"),
    [
        ([35, 35, 35, 1, 0, 0], 3),
        ([np.nan, 35, 34, 0], 3),
        ([-35, -36, 0], 2),
        ([0, 0], 0),
        ([], 0),
        ([0, 35, 0], 2),
    ],
)
def test_it_stands_where_it_stands_since_the_last_moment_from_which_it_moved(
    shift_since_ms: list[float], place: int
) -> None:
    assert began_at(shift_since_ms) == place


def test_a_shift_counts_from_a_millisecond_and_a_tenth_on() -> None:
    assert is_notable(-1.0, 2.0)
    assert not is_notable(0.9, 2.0)
    assert not is_notable(4.0, 50.0)


def test_a_shift_is_said_in_one_sentence() -> None:
    assert NodeShift("edge-7", 35.2, 0.0).text == "edge-7 is 35.2 ms farther from everybody since 00:00 UTC"
    assert NodeShift("edge-7", -3.0, 0.0).text == "edge-7 is 3 ms nearer to everybody since 00:00 UTC"
