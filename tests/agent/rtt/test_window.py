import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.rtt.peer_stats import ProbeWindow, jitter, nearest_rank
from leadsman.state.records import Latency, ProbeMethod, decode_record, encode_record

rtts = st.floats(0.001, 1000)
outcomes = st.lists(st.tuples(st.floats(0, 1000), st.none() | rtts), max_size=60)


def filled(*rtts_ms, span=30.0):
    """One probe a second, from second 0 on."""
    window = ProbeWindow(span)
    for second, rtt_ms in enumerate(rtts_ms):
        window.add(float(second), rtt_ms)
    return window


def test_an_empty_window_knows_nothing() -> None:
    found = ProbeWindow(30).latency(0, ProbeMethod.ICMP)
    assert (found.sent, found.received, found.p50_ms, found.last_reply_age_seconds) == (0, 0, None, None)


def test_percentiles_are_values_that_were_measured() -> None:
    found = filled(*range(1, 21)).latency(19, ProbeMethod.ICMP)
    assert (found.min_ms, found.p50_ms, found.p95_ms) == (1, 10, 19)


def test_a_lost_probe_counts_as_sent_and_is_no_latency() -> None:
    found = filled(2.0, None, 4.0, None).latency(3, ProbeMethod.ICMP)
    assert (found.sent, found.received, found.min_ms, found.p95_ms, found.loss_ratio) == (4, 2, 2.0, 4.0, 0.5)


def test_jitter_is_the_mean_step_between_neighbours() -> None:
    assert filled(1.0, 3.0, 2.0).latency(2, ProbeMethod.ICMP).jitter_ms == 1.5


def test_one_reply_has_no_jitter() -> None:
    assert filled(1.0).latency(0, ProbeMethod.ICMP).jitter_ms is None


def test_what_is_older_than_the_span_is_forgotten() -> None:
    found = filled(100.0, None, 1.0, span=1.5).latency(2, ProbeMethod.ICMP)
    assert (found.sent, found.p95_ms) == (2, 1.0)
    assert filled(100.0).latency(31, ProbeMethod.ICMP).sent == 0


def test_the_last_reply_ages_beyond_the_span() -> None:
    assert filled(500.0, None).latency(60, ProbeMethod.ICMP).last_reply_age_seconds == 59.5


def test_outcomes_count_in_the_order_of_sending() -> None:
    window = ProbeWindow(30)
    for sent, rtt_ms in [(2.0, 3.0), (1.0, 1.0), (3.0, 3.0)]:
        window.add(sent, rtt_ms)
    assert window.latency(3, ProbeMethod.ICMP).jitter_ms == 1.0


def test_a_loss_later_than_the_last_proof_of_life_does_not_count_yet() -> None:
    window = filled(1.0, None, None)
    assert window.latency(2, ProbeMethod.ICMP, losses_until=1.0).sent == 2
    assert window.latency(2, ProbeMethod.ICMP).sent == 3


def test_losses_of_a_gap_are_taken_back_and_replies_stay() -> None:
    window = filled(1.0, None, 2.0, None, None)
    window.forget_losses(after=0.0, before=4.0)
    found = window.latency(4, ProbeMethod.ICMP)
    assert (found.sent, found.received) == (3, 2)


def test_clearing_leaves_nothing() -> None:
    window = filled(1.0, None)
    window.clear()
    assert window.latency(1, ProbeMethod.TCP).sent == 0


@given(outcomes, st.floats(0, 1000), st.sampled_from(ProbeMethod))
def test_any_window_makes_a_record_that_readers_take(given_outcomes, now, method) -> None:
    window = ProbeWindow(100)
    for sent, rtt_ms in given_outcomes:
        window.add(sent, rtt_ms)
    record = Latency({"peer": window.latency(now, method)})
    assert decode_record(Latency, encode_record(record)) == record


@given(st.lists(rtts, min_size=1), st.floats(0.01, 1))
def test_at_least_the_share_lies_at_or_below_the_nearest_rank_and_less_below_the_one_before(values, share) -> None:
    ordered = sorted(values)
    found = nearest_rank(ordered, share)
    assert found in ordered
    assert sum(v <= found for v in ordered) >= share * len(ordered)
    assert sum(v < found for v in ordered) < share * len(ordered)


@given(st.lists(rtts))
def test_jitter_is_at_most_the_range(values) -> None:
    found = jitter(values)
    assert (found is None) is (len(values) < 2)
    assert found is None or found <= (max(values) - min(values)) * (1 + 1e-9)


@pytest.mark.parametrize("share", [0.5, 0.95])
def test_of_nothing_there_is_no_percentile(share: float) -> None:
    assert nearest_rank([], share) is None
    only = nearest_rank([1.0], share)
    assert only is not None
    assert math.isfinite(only)
