import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.state.report_timing import ReportTiming, stale_seconds, timing_for_nodes


def test_the_defaults_are_those_of_the_design() -> None:
    timing = ReportTiming()
    assert (timing.push_interval_seconds, timing.call_timeout_seconds) == (5, 3)
    assert (timing.stale_seconds, timing.lease_seconds) == (15, 30)


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


def test_a_slow_rhythm_stays_as_it_is() -> None:
    assert timing_for_nodes(ReportTiming(60), 1_000).push_interval_seconds == 60


def test_reader_and_writer_take_the_same_time_from_the_same_interval() -> None:
    assert stale_seconds(25) == ReportTiming(25).stale_seconds
