"""What this replica decided lately: rates of a minute, and the bounded pods that wait."""

from math import inf

import pytest

from extender.api.live import FORGET_SECONDS, TriedPod, quantile_ms, tried_pods
from extender.journal import JournalEntry
from leadsman.decision.decide import FilterResult
from leadsman.decision.model import PodInfo, Refusal

BOUNDED = {"delay_a": "1"}


def test_a_quantile_is_linear_within_its_bucket() -> None:
    assert quantile_ms({0.01: 50.0, 0.02: 100.0, inf: 100.0}, 0.75) == pytest.approx(15.0)
    assert quantile_ms({0.01: 0.0, inf: 10.0}, 0.99) == pytest.approx(10.0), "beyond all ends: the last finite one"
    assert quantile_ms({}, 0.5) is None


def entry(kept: bool, decided_at: float, **labels: str) -> JournalEntry:
    pod = PodInfo("shop", "cart", "uid", labels)
    result = FilterResult(("a",), {}) if kept else FilterResult((), {"a": Refusal("delay", "far")})
    return JournalEntry(pod, ("a",), decided_at, result)


def test_a_pod_waits_from_the_first_attempt_until_a_node_passes() -> None:
    first = tried_pods({}, [entry(False, 10.0, **BOUNDED)], 11.0)
    again = tried_pods(first, [entry(False, 50.0, **BOUNDED)], 51.0)
    assert again == {"uid": TriedPod("shop/cart", 10.0, 50.0)}
    passed = tried_pods(again, [entry(True, 60.0, **BOUNDED)], 61.0)
    assert passed == {"uid": TriedPod("shop/cart", None, 60.0)}
    assert tried_pods(passed, [entry(False, 70.0, **BOUNDED)], 71.0) == {"uid": TriedPod("shop/cart", 70.0, 70.0)}


def test_a_pod_that_is_not_tried_any_more_does_not_wait() -> None:
    tried = tried_pods({}, [entry(False, 10.0, **BOUNDED)], 11.0)
    assert tried_pods(tried, [], 10.0 + FORGET_SECONDS) == {}


def test_a_pod_without_a_bound_is_not_counted() -> None:
    assert tried_pods({}, [entry(False, 10.0)], 11.0) == {}
