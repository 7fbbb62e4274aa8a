import numpy as np
import pytest

from leadsman.network.estimates import MIN_PAIRS, GroupMedians, fit_group_medians
from leadsman.network.measured_pairs import MeasuredPairs, build_pairs


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
