"""Rates of decisions, and which pods wait."""

from math import inf

import pytest

from extender.api.decision_rates import DecisionRates, Rates, quantile_ms, rates_of
from extender.api.waiting_pods import FORGET_SECONDS, WaitingPod, waiting_pods
from extender.journal import JournalEntry
from leadsman.decision.decide import FilterResult
from leadsman.decision.model import PodInfo, Refusal


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


def entry(kept: bool, decided_at: float, **labels: str) -> JournalEntry:
    pod = PodInfo("shop", "cart", "uid", labels)
    result = FilterResult(("a",), {}) if kept else FilterResult((), {"a": Refusal("delay", "far")})
    return JournalEntry(pod, ("a",), decided_at, result)


def test_a_pod_waits_from_the_first_attempt_until_a_node_passes() -> None:
    bounded = {"delay_a": "1"}
    first = waiting_pods({}, [entry(False, 10.0, **bounded)], 11.0)
    again = waiting_pods(first, [entry(False, 50.0, **bounded)], 51.0)
    assert again == {"uid": WaitingPod("shop/cart", 10.0, 50.0)}
    assert waiting_pods(again, [entry(True, 60.0, **bounded)], 61.0) == {}


def test_a_pod_that_is_not_tried_any_more_does_not_wait() -> None:
    waiting = waiting_pods({}, [entry(False, 10.0, delay_a="1")], 11.0)
    assert waiting_pods(waiting, [], 10.0 + FORGET_SECONDS) == {}


def test_a_pod_without_a_bound_is_not_counted() -> None:
    assert waiting_pods({}, [entry(False, 10.0)], 11.0) == {}
