"""Groups are sound: no pair of a group is farther apart than its layer. No two groups could be one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadsman.network.estimates import MIN_PAIRS, GroupMedians, fit_group_medians
from leadsman.network.layers import build_layer, group_distances_ms
from leadsman.network.measured_pairs import Floats, MeasuredPairs, build_pairs
from leadsman.simulator.generated_cluster import rack_network

LIMITS_MS = (0.0, 0.3, 5.0, 25.0, 100.0)


@st.composite
def networks(draw: st.DrawFn) -> Floats:
    """Up to 12 nodes, delays that are often equal, zero or unknown."""
    nodes = draw(st.integers(0, 12))
    values = st.sampled_from([0.0, 0.1, 1.0, 5.0, 25.0, 26.0, float("nan")])
    square = np.array(draw(st.lists(values, min_size=nodes**2, max_size=nodes**2)), float).reshape(nodes, nodes)
    np.fill_diagonal(square, 0)
    return np.maximum(square, square.T)


@settings(max_examples=400)
@given(networks(), st.sampled_from(LIMITS_MS), st.data())
def test_no_pair_of_a_group_is_farther_apart_than_its_layer(
    delay_ms: Floats, limit_ms: float, data: st.DataObject
) -> None:
    """Whatever groups there were before."""
    groups = st.lists(st.integers(-1, 3), min_size=len(delay_ms), max_size=len(delay_ms))
    before = data.draw(st.none() | groups.map(lambda each: np.array(each, int)))
    group_of = build_layer(delay_ms, limit_ms, before).group_of
    same = group_of[:, None] == group_of
    np.fill_diagonal(same, False)
    assert not (same & ~(delay_ms <= limit_ms)).any()


@settings(max_examples=200)
@given(networks(), st.sampled_from(LIMITS_MS))
def test_no_two_groups_could_be_one(delay_ms: Floats, limit_ms: float) -> None:
    """Nor such at 0 ms, which the original took for "no link" and never clustered."""
    found = build_layer(delay_ms, limit_ms)
    far = group_distances_ms(delay_ms, found.group_of)
    np.fill_diagonal(far, np.inf)
    assert not (far <= limit_ms).any()


def test_layers_of_a_region_are_its_racks_and_its_zones() -> None:
    network = rack_network(3, 4, 8, np.random.default_rng(0))
    for limit_ms, wanted in ((0.15, network.rack), (0.55, network.zone)):
        found = build_layer(network.rtt_ms, limit_ms).group_of
        assert np.array_equal(found[:, None] == found, wanted[:, None] == wanted)


def test_a_node_that_joins_is_taken_in_and_the_groups_before_stay() -> None:
    """A joining node crashed the original."""
    delay_ms = np.array([[0, 2, 9, 1.0], [2, 0, 9, 1.0], [9, 9, 0, 9.0], [1, 1, 9, 0]])
    assert build_layer(delay_ms, 5.0, np.array([0, 0, 1, -1])).group_of.tolist() == [0, 0, 1, 0]


def network(jitter: float = 0.0) -> tuple[MeasuredPairs, np.ndarray]:
    """Two groups of 20: 1 ms within, 8 ms between, all pairs measured."""
    of = np.repeat([0, 1], 20)
    one, other = np.triu_indices(40, 1)
    noise = np.exp(np.random.default_rng(0).normal(0, jitter, len(one)))
    return build_pairs(40, one, other, np.where(of[one] == of[other], 1.0, 8.0) * noise), of


def at(found: GroupMedians, one: int, other: int) -> float:
    return float(np.exp(found.log_ms(np.array([one]), np.array([other])))[0])


def test_the_median_within_and_between_groups() -> None:
    measured, of = network()
    found = fit_group_medians(of, measured)
    assert (at(found, 0, 1), at(found, 0, 39), at(found, 39, 0)) == pytest.approx((1, 8, 8))
    assert found.error == pytest.approx(0, abs=1e-6)


def test_too_few_measured_pairs_say_nothing() -> None:
    measured, of = network()
    between = np.flatnonzero(of[measured.first] != of[measured.second])
    few = np.ones(len(measured.log_ms), bool)
    few[between[MIN_PAIRS - 1 :]] = False
    assert np.isnan(at(fit_group_medians(of, measured.where(few)), 0, 39))


def test_the_interval_holds_nine_of_ten() -> None:
    measured, of = network(jitter=0.1)
    found = fit_group_medians(of, measured)
    offset = measured.log_ms - found.log_ms(measured.first, measured.second)
    assert 0.87 < ((found.low <= offset) & (offset <= found.high)).mean() < 0.93
