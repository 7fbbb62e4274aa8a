import numpy as np
import pytest

from leadsman.network.holdout_evaluation import held_out_pairs, measure_accuracy, sample_pairs


def test_what_was_not_measured_is_held_out_in_both_directions() -> None:
    rtt_ms = np.random.default_rng(0).uniform(1, 9, (30, 30))
    found = sample_pairs(rtt_ms, 4, np.random.default_rng(0))
    one, other = held_out_pairs(rtt_ms, found)
    assert len(one) + 2 * len(found.log_ms) == 30 * 29
    assert not found.find_pairs(one, other)[1].any()


def test_holes_are_neither_measured_nor_held_out() -> None:
    rtt_ms = np.full((6, 6), 5.0)
    rtt_ms[0, 1:] = [0, np.nan, -1, np.inf, 0]
    rtt_ms[1:, 0] = 0
    found = sample_pairs(rtt_ms, 5, np.random.default_rng(0))
    assert found.degree.tolist() == [0, 4, 4, 4, 4, 4]
    assert not len(held_out_pairs(rtt_ms, found)[0])


def test_a_score_counts_relative_errors_and_truths_within() -> None:
    truth = np.full(11, 10.0)
    estimate = np.linspace(10, 20, 11)
    assert measure_accuracy(estimate, estimate - 2, estimate + 2, truth) == pytest.approx((0.5, 0.9, 3 / 11))


def test_no_estimate_is_infinitely_wrong() -> None:
    none = np.full(3, np.nan)
    assert measure_accuracy(none, none, none, np.ones(3)) == (np.inf, np.inf, 0)
