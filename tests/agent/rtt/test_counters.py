from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agent.rtt.peer_stats import BUCKET_BOUNDS_SECONDS, RttHistogram


def test_the_bounds_double_from_50_microseconds_to_26_seconds() -> None:
    assert BUCKET_BOUNDS_SECONDS[0] == 50e-6
    assert all(b == 2 * a for a, b in pairwise(BUCKET_BOUNDS_SECONDS))
    assert 26 < BUCKET_BOUNDS_SECONDS[-1] < 27


def test_a_value_on_a_bound_is_within_it() -> None:
    """Prometheus' `le` means less or equal."""
    histogram = RttHistogram()
    histogram.observe(100e-6)
    assert [count for _, count in histogram.cumulative_buckets()[:3]] == [0, 1, 1]


@given(st.lists(st.floats(1e-6, 60)))
def test_buckets_only_grow_and_the_last_holds_all(values) -> None:
    histogram = RttHistogram()
    for value in values:
        histogram.observe(value)
    counts = [count for _, count in histogram.cumulative_buckets()]
    assert counts == sorted(counts)
    assert counts[-1] == len(values)
    assert histogram.cumulative_buckets()[-1][0] == "+Inf"
    assert histogram.sum_seconds == sum(values)
