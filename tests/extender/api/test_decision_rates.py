"""Rates of decisions."""

from math import inf

import pytest

from extender.api.decision_rates import DecisionRates, Rates, quantile_ms, rates_of


def test_without_a_decision_there_is_no_time() -> None:
    rates = DecisionRates()
    assert rates_of([rates.window]) == Rates(0.0, None, None)
    rates.sample(0.0, {0.1: 5.0, inf: 5.0})
    rates.sample(60.0, {0.1: 5.0, inf: 5.0})
    assert rates_of([rates.window]) == Rates(0.0, None, None)


def test_the_last_minute_counts_alone() -> None:
    rates = DecisionRates()
    for second in range(0, 200, 10):
        rates.sample(float(second), {0.1: 1000.0 + second, inf: 1000.0 + second})
    assert rates_of([rates.window]).per_minute == pytest.approx(60)


def test_a_quantile_is_linear_within_its_bucket() -> None:
    assert quantile_ms({0.01: 50.0, 0.02: 100.0, inf: 100.0}, 0.75) == pytest.approx(15.0)
    assert quantile_ms({0.01: 0.0, inf: 10.0}, 0.99) == pytest.approx(10.0), "beyond all ends: the last finite one"
    assert quantile_ms({}, 0.5) is None
