"""The delay history: what it keeps, for how long, in how much memory."""

import random
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.api.history import DelayHistory, node_shifts_ms
from extender.api.requests import from_iso
from extender.api.view import DelayTable

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


def test_a_node_has_48_hours_of_half_hours() -> None:
    history = DelayHistory(BEGAN)
    for minute in range(0, 60 * 50, 5):
        history.add(BEGAN + 60 * minute, table(6, 5))
    moments = [moment.at for moment in history.of_node("edge-3")]
    assert moments == sorted(moments)
    assert from_iso(moments[-1]) - from_iso(moments[0]) == pytest.approx(48 * 3600, abs=3600)
    assert len(moments) <= 15 + 15 + 2 * 48
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
    """Of each kind of moment one is measured, and as many counted as there are at most."""
    history, whole = DelayHistory(BEGAN), table(5000, 33)
    history.add(BEGAN, whole)
    hour = 31 * history.held_bytes
    history.add(BEGAN + 3601, DelayTable(whole.names, *(np.zeros(0, np.intp),) * 2, *(np.zeros(0),) * 2))
    assert hour + 96 * history.held_bytes <= 30 << 20


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
