"""What measurements of before say about pairs that are not measured now."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_numpy

from leadsman.network.fitting import FitBudget, fit_network
from leadsman.network.former_pairs import FormerPairs, former_pairs
from leadsman.network.measured_pairs import Floats, Indices, MeasuredPairs, build_pairs
from leadsman.simulator.generated_cluster import random_peers
from tests.holdout import held_out_pairs, measure_accuracy, sample_pairs
from tests.leadsman.network.conftest import QUICK, accuracy


def ring(nodes: int, step: int, rtt_ms: float | Floats = 10.0, *, mutual: bool = True) -> MeasuredPairs:
    """Each node with the one so many places further; mutual: which measures it too."""
    one: Indices = np.arange(nodes)
    other, values = (one + step) % nodes, np.broadcast_to(np.asarray(rtt_ms, float), (nodes,))
    if not mutual:
        return build_pairs(nodes, one, other, values)
    return build_pairs(nodes, np.concatenate([one, other]), np.concatenate([other, one]), np.tile(values, 2))


def test_the_newest_of_several_counts() -> None:
    now, newest, oldest = ring(50, 1), ring(50, 1).union(ring(50, 2, 20.0)), ring(50, 1).union(ring(50, 2, 30.0))
    assert np.exp(former_pairs([newest, oldest], now).pairs.log_ms) == pytest.approx(np.full(50, 20.0))


def test_an_interval_is_as_wide_as_pairs_that_are_still_measured_have_changed() -> None:
    factors = np.geomspace(0.8, 1.25, 109)
    found = former_pairs([ring(109, 1).union(ring(109, 2))], ring(109, 1, 10.0 * factors))
    assert np.exp(found.low) == pytest.approx(np.full(109, 10.0 * factors[4]), rel=1e-4)
    assert np.exp(found.high) == pytest.approx(np.full(109, 10.0 * factors[-5]), rel=1e-4)


def test_a_pair_measured_in_one_direction_may_be_as_far_off_as_the_other_direction_is_elsewhere() -> None:
    gone, also_gone, steady = (ring(109, step, mutual=False) for step in (1, 2, 3))
    slower = 10.0 * np.geomspace(1.0, 4.0, 109)
    one: Indices = np.arange(109)
    there_and_back = np.concatenate([one, (one + 1) % 109]), np.concatenate([(one + 1) % 109, one])
    now = build_pairs(109, *there_and_back, np.concatenate([np.full(109, 10.0), slower])).union(steady)
    found = former_pairs([gone.union(also_gone).union(steady)], now)
    assert np.exp(found.high) == pytest.approx(np.full(109, slower[-5]), rel=1e-4)


@given(
    then_ms=hypothesis_numpy.arrays(float, 30, elements=st.floats(0.1, 1_000)),
    now_ms=hypothesis_numpy.arrays(float, 30, elements=st.floats(0.1, 1_000)),
    times=st.floats(0.01, 10),
    mutual=st.booleans(),
)
def test_intervals_contain_the_value_then_and_have_no_unit(
    then_ms: Floats, now_ms: Floats, times: float, mutual: bool
) -> None:
    def found(unit: float) -> FormerPairs:
        before = [ring(30, step, then_ms * unit, mutual=mutual) for step in (1, 2)]
        return former_pairs([before[0].union(before[1])], ring(30, 1, now_ms * unit))

    plain, scaled = found(1.0), found(times)
    assert (plain.low <= plain.pairs.log_ms).all()
    assert (plain.pairs.log_ms <= plain.high).all()
    for one, other in ((plain.low, scaled.low), (plain.high, scaled.high)):
        assert other - np.log(times) == pytest.approx(one, abs=1e-3)


@pytest.mark.parametrize("spread", [0.02, 0.2])
def test_remembered_pairs_make_estimates_better_and_intervals_go_on_holding(part: Floats, spread: float) -> None:
    rng = np.random.default_rng(0)
    changes = np.random.default_rng(1).normal(0, spread, part.shape)
    now = np.asarray(part * np.exp((changes + changes.T) / np.sqrt(2)))
    seen, before = sample_pairs(now, 12, rng), sample_pairs(part, 16, rng)
    former = former_pairs([before], seen)
    plain, better = (fit_network(seen, np.random.default_rng(0), budget=QUICK, former=each) for each in (None, former))
    ours, theirs = (accuracy(each, now) for each in (better, plain))
    assert ours.p90_relative_error < theirs.p90_relative_error
    assert 0.86 <= ours.interval_coverage <= 0.94


def test_estimates_of_devices_hold_their_promise_where_pairs_were_measured_in_one_direction(seattle: Floats) -> None:
    """Agents measure nine of ten pairs in one direction. Each keeps ten peers and replaces six."""
    covered, broken = zip(
        *(covered_and_broken(seattle, QUICK, np.random.default_rng(seed)) for seed in range(3)), strict=True
    )
    assert 0.87 < np.mean(covered) < 0.92
    assert np.mean(broken) < 0.1


def covered_and_broken(rtt_ms: Floats, budget: FitBudget, rng: np.random.Generator) -> tuple[float, float]:
    """The share of directions within their interval, and of pairs that a bound accepts those that break it.

    One direction in seven is now as another one of its node, as from one slice of seattle to the next.
    """
    nodes = len(rtt_ms)
    another = np.take_along_axis(rtt_ms, rng.integers(0, nodes, rtt_ms.shape), 1)
    now = np.where((rng.random(rtt_ms.shape) < 1 / 7) & (rtt_ms > 0) & (another > 0), another, rtt_ms)
    kept = random_peers(nodes, 10, rng)

    def measured(rtt_ms: Floats) -> MeasuredPairs:
        source, target = (np.concatenate(each) for each in zip(kept, random_peers(nodes, 6, rng), strict=True))
        return build_pairs(nodes, source, target, rtt_ms[source, target])

    seen, before = measured(now), [measured(rtt_ms) for _ in range(8)]
    estimates = fit_network(seen, rng, budget=budget, former=former_pairs(before, seen))
    one, other = held_out_pairs(now, seen)
    table, slower_ms = estimates.between(one, other), np.maximum(now[one, other], now[other, one])
    bounds_ms = np.quantile(now[now > 0], np.linspace(0.05, 0.95, 19))[:, None]
    accepted = table.high_ms <= bounds_ms
    covered = measure_accuracy(*table[:3], now[one, other]).interval_coverage
    return covered, float((slower_ms > bounds_ms)[accepted].mean())
