"""Which node moved, and since when, as properties."""

import random
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.api.history import NodeShift, began_at, is_notable, node_shifts_ms


@given(nodes=st.integers(5, 30), shift_ms=st.floats(-80, 80), seed=st.integers(0, 1000))
def test_a_node_that_moved_alone_is_the_only_one_that_did(nodes: int, shift_ms: float, seed: int) -> None:
    pairs = list(permutations(range(nodes), 2))
    moved = random.Random(seed).randrange(nodes)
    one, other = np.array(pairs).T
    change = np.array([shift_ms if moved in pair else 0.0 for pair in pairs])
    shifts = node_shifts_ms(one, other, change, nodes)
    assert shifts[moved] == pytest.approx(shift_ms)
    assert np.delete(shifts, moved) == pytest.approx(0, abs=1.0), "below what counts as a shift"


@given(nodes=st.integers(6, 20), seed=st.integers(0, 1000))
def test_the_order_of_pairs_does_not_matter(nodes: int, seed: int) -> None:
    rng = random.Random(seed)
    pairs = list(permutations(range(nodes), 2))
    changes = {pair: rng.uniform(-20, 20) for pair in pairs}
    mixed = rng.sample(pairs, len(pairs))
    results = [
        node_shifts_ms(np.array(order)[:, 0], np.array(order)[:, 1], np.array([changes[pair] for pair in order]), nodes)
        for order in (pairs, mixed)
    ]
    assert results[0] == pytest.approx(results[1])


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
