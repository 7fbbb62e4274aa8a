from hypothesis import given
from hypothesis import strategies as st

from agent.quarantine import MAX_PAUSE_SECONDS, after_overrun, is_over


def after(count):
    quarantine = None
    for _ in range(count):
        quarantine = after_overrun(quarantine, 0.0, 0.0)
    return quarantine


def test_pauses_double_up_to_the_longest() -> None:
    assert [after(count).not_before_seconds for count in (1, 2, 3, 4, 7, 99)] == [5, 10, 20, 40, 300, 300]


def test_the_pause_counts_from_the_overrun() -> None:
    assert after_overrun(None, 90.0, 100.0).not_before_seconds == 105.0


@given(st.integers(1, 2000))
def test_a_pause_is_never_longer_than_the_longest(count) -> None:
    assert after(min(count, 50)).not_before_seconds <= MAX_PAUSE_SECONDS


def test_over_only_after_the_pause_and_with_the_thread_back() -> None:
    quarantine = after_overrun(None, 0.0, 0.0)
    assert not is_over(quarantine, 4.9, running=False)
    assert not is_over(quarantine, 500.0, running=True)
    assert is_over(quarantine, 5.0, running=False)
