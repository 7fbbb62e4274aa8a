import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstate.timing import Timing, for_nodes, stale_seconds


def test_the_defaults_are_those_of_the_design() -> None:
    timing = Timing()
    assert (timing.push_interval_seconds, timing.call_timeout_seconds) == (5, 3)
    assert (timing.stale_seconds, timing.lease_seconds) == (15, 20)


@given(st.floats(allow_nan=True), st.floats(allow_nan=True))
def test_whatever_can_be_built_keeps_the_inequality(push: float, call: float) -> None:
    try:
        timing = Timing(push, call)
    except ValueError:
        return
    assert 0 < push + 2 * call <= timing.stale_seconds < timing.lease_seconds


@pytest.mark.parametrize(("push", "call"), [(0, 1), (-1, 1), (121, 1), (5, 0), (5, 5.1), (float("nan"), 1), (0.1, 0.1)])
def test_what_breaks_it_is_refused_with_the_value(push: float, call: float) -> None:
    with pytest.raises(ValueError, match=f"{push}|{call}"):
        Timing(push, call)


@pytest.mark.parametrize(("nodes", "push"), [(1, 5), (1_000, 5), (2_000, 10), (5_000, 25), (100_000, 120)])
def test_the_store_sees_at_most_200_reports_a_second_up_to_24_000_nodes(nodes: int, push: float) -> None:
    assert for_nodes(Timing(), nodes).push_interval_seconds == push
    assert nodes / push <= 200 or nodes > 24_000


def test_a_slow_rhythm_stays_as_it_is() -> None:
    assert for_nodes(Timing(60), 1_000).push_interval_seconds == 60


def test_reader_and_writer_take_the_same_time_from_the_same_interval() -> None:
    assert stale_seconds(25) == Timing(25).stale_seconds
