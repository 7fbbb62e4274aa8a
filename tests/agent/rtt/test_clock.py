import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.rtt.icmp import DualTimestamp, read_clocks, round_trip_ns

MS = 1_000_000
SENT = DualTimestamp(monotonic_ns=5_000 * MS, wall_ns=1_700_000_000_000 * MS)


def after(stamp, monotonic_ns, step_ns=0):
    return DualTimestamp(stamp.monotonic_ns + monotonic_ns, stamp.wall_ns + monotonic_ns + step_ns)


def test_it_is_the_time_from_sending_to_the_kernels_stamp_not_to_the_reading() -> None:
    assert round_trip_ns(SENT, SENT.wall_ns + 3 * MS, after(SENT, 90 * MS)) == 3 * MS


@pytest.mark.parametrize("step_ns", [-3_600_000 * MS, -2 * MS, -1 * MS, 1 * MS, 3_600_000 * MS])
@pytest.mark.parametrize("stepped_before_receiving", [True, False])
def test_a_clock_set_under_way_gives_no_round_trip(step_ns, stepped_before_receiving: bool) -> None:
    received = SENT.wall_ns + 40 * MS + (step_ns if stepped_before_receiving else 0)
    assert round_trip_ns(SENT, received, after(SENT, 41 * MS, step_ns)) is None


@given(st.integers(-(10**18), 10**18), st.integers(0, 10**12), st.integers(-(10**18), 10**18))
def test_it_is_never_negative_zero_or_longer_than_what_has_elapsed(received_after, elapsed, step) -> None:
    found = round_trip_ns(SENT, SENT.wall_ns + received_after, after(SENT, elapsed, step))
    assert found is None or 0 < found <= elapsed


def test_both_clocks_are_read() -> None:
    first, second = read_clocks(), read_clocks()
    assert first.monotonic_ns <= second.monotonic_ns
    assert first.wall_ns > 1_700_000_000 * 10**9
    assert first.seconds == first.monotonic_ns / 1e9
