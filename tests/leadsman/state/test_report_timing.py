import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.state.report_timing import ReportTiming, timing_for_nodes


@given(st.floats(allow_nan=True), st.floats(allow_nan=True))
def test_whatever_can_be_built_keeps_the_inequality(push: float, call: float) -> None:
    try:
        timing = ReportTiming(push, call)
    except ValueError:
        return
    assert 0 < push + 2 * call <= timing.stale_seconds < timing.lease_seconds


@pytest.mark.parametrize(
    ("push", "call"), [(0, 1), (-1, 1), (121, 1), (5, 0), (5, 5.1), (float("nan"), 1), (0.05, 0.05)]
)
def test_what_breaks_it_is_refused_with_the_value(push: float, call: float) -> None:
    with pytest.raises(ValueError, match=f"{push}|{call}"):
        ReportTiming(push, call)


@pytest.mark.parametrize(("nodes", "push"), [(1, 5), (1_000, 5), (2_000, 10), (5_000, 25), (100_000, 120)])
def test_the_store_sees_at_most_200_reports_a_second_up_to_24_000_nodes(nodes: int, push: float) -> None:
    assert timing_for_nodes(ReportTiming(), nodes).push_interval_seconds == push
    assert nodes / push <= 200 or nodes > 24_000
