import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.rtt.peer_stats import BUCKET_BOUNDS_SECONDS, ProbeWindow, RttHistogram, jitter, nearest_rank
from leadsman.state.records import Latency, ProbeMethod, decode_record, encode_record

rtts = st.floats(0.001, 1000)
outcomes = st.lists(st.tuples(st.floats(0, 1000), st.none() | rtts), max_size=60)


def filled(*rtts_ms, span=30.0):
    """One probe a second, from second 0 on."""
    window = ProbeWindow(span)
    for second, rtt_ms in enumerate(rtts_ms):
        window.add(float(second), rtt_ms)
    return window


@pytest.mark.parametrize(
    ("outcomes", "now", "known"),
    [
        ([], 0, {"sent": 0, "received": 0, "p50_ms": None, "p95_ms": None, "loss_ratio": None}),
        # Percentiles are values that were measured.
        (range(1, 21), 19, {"min_ms": 1, "p50_ms": 10, "p95_ms": 19}),
        # A lost probe counts as sent and is no latency.
        ([2.0, None, 4.0, None], 3, {"sent": 4, "received": 2, "min_ms": 2.0, "p95_ms": 4.0, "loss_ratio": 0.5}),
        # Jitter is the mean step between neighbours.
        ([1.0, 3.0, 2.0], 2, {"jitter_ms": 1.5}),
        ([1.0], 0, {"jitter_ms": None, "p50_ms": 1.0, "p95_ms": 1.0}),
        # What is older than the span is forgotten; the last reply ages beyond it.
        ([100.0, *[None] * 30, 1.0], 31, {"p95_ms": 1.0}),
        ([500.0, None], 60, {"sent": 0, "last_reply_age_seconds": 59.5}),
    ],
)
def test_what_a_window_knows_of_one_probe_a_second(outcomes, now, known) -> None:
    found = filled(*outcomes).latency(now, ProbeMethod.ICMP)
    assert {name: getattr(found, name) for name in known} == known


def test_a_loss_later_than_the_last_proof_of_life_does_not_count_yet() -> None:
    window = filled(1.0, None, None)
    assert window.latency(2, ProbeMethod.ICMP, losses_until=1.0).sent == 2
    assert window.latency(2, ProbeMethod.ICMP).sent == 3


def test_losses_of_a_gap_are_taken_back_and_replies_stay() -> None:
    window = filled(1.0, None, 2.0, None, None)
    window.forget_losses(after=0.0, before=4.0)
    found = window.latency(4, ProbeMethod.ICMP)
    assert (found.sent, found.received) == (3, 2)


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


@given(st.lists(rtts, min_size=2))
def test_jitter_is_at_most_the_range(values) -> None:
    assert jitter(values) <= (max(values) - min(values)) * (1 + 1e-9)


@given(st.lists(st.floats(1e-6, 60) | st.sampled_from(BUCKET_BOUNDS_SECONDS)))
def test_a_bucket_counts_what_is_at_most_its_bound(values) -> None:
    """Prometheus' `le` means less or equal."""
    histogram = RttHistogram()
    for value in values:
        histogram.observe(value)
    counts = [sum(value <= bound for value in values) for bound in BUCKET_BOUNDS_SECONDS]
    assert [count for _, count in histogram.cumulative_buckets()] == [*counts, len(values)]
    assert histogram.sum_seconds == sum(values)
