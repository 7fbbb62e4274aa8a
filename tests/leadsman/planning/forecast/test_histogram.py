"""The decaying histogram has the recommender's buckets and weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.planning.forecast.histogram import CPU_MILLIS, HALF_LIFE_SECONDS, MEMORY_BYTES, decayed_percentile


def test_buckets_begin_where_the_recommender_s_do() -> None:
    """Widths 10, 10.5 and 11.025 millicores."""
    assert [round(CPU_MILLIS.start(bucket), 6) for bucket in range(4)] == [0.0, 10.0, 20.5, 31.525]
    assert (CPU_MILLIS.number, MEMORY_BYTES.number) == (176, 176)
    assert CPU_MILLIS.of(np.array([0.0, 9.9, 10.1, 20.4, 20.6, 1e9])).tolist() == [0, 0, 1, 1, 2, 175]


def test_a_half_life_halves_the_weight() -> None:
    """Two old samples weigh as much as one of now; three weigh more."""
    now = 10 * HALF_LIFE_SECONDS
    for old, median in ((2, 15.0), (3, 15.0), (1, 105.0)):
        values = np.array([15.0] * old + [105.0])
        times = np.array([now - HALF_LIFE_SECONDS] * old + [now])
        found = decayed_percentile(values, times, now, 0.5, CPU_MILLIS)
        assert found == CPU_MILLIS.start(int(CPU_MILLIS.of(np.array([median]))[0]) + 1)


def test_there_is_no_percentile_of_nothing() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        decayed_percentile(np.array([]), np.array([]), 0.0, 0.9, CPU_MILLIS)


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=40), st.floats(0.01, 1.0))
def test_a_percentile_is_at_most_a_bucket_above_the_exact_one(values: list[float], share: float) -> None:
    samples = np.array(values)
    found = decayed_percentile(samples, np.zeros(len(values)), 0.0, share, CPU_MILLIS)
    exact = float(np.sort(samples)[max(int(np.ceil(share * len(values) - 1e-9)) - 1, 0)])
    assert exact <= found * (1 + 1e-9)
    assert found <= exact * 1.05 + 10.0 + 1e-6
