from random import Random

from hypothesis import given
from hypothesis import strategies as some

from leadsman.runtime.backoff import Backoff


class Longest(Random):
    """Always the longest pause that is allowed."""

    def uniform(self, a: float, b: float) -> float:
        return b


def test_the_limit_doubles_from_the_first_to_the_longest_pause() -> None:
    backoff = Backoff(0.5, 5.0, Longest())
    assert [backoff.next_seconds() for _ in range(6)] == [0.5, 1, 2, 4, 5, 5]


def test_a_success_begins_at_the_first_pause_again() -> None:
    backoff = Backoff(0.5, 5.0, Longest())
    for _ in range(4):
        backoff.next_seconds()
    backoff.reset()
    assert backoff.next_seconds() == 0.5


@given(some.integers(), some.floats(0.01, 10), some.floats(10, 1000), some.integers(1, 3000))
def test_no_pause_is_longer_than_the_longest(seed: int, first: float, longest: float, failures: int) -> None:
    backoff = Backoff(first, longest, Random(seed))
    assert all(0 <= backoff.next_seconds() <= longest for _ in range(failures))


def test_processes_that_fail_together_return_apart() -> None:
    pauses = [Backoff(1.0, 1.0, Random(seed)).next_seconds() for seed in range(100)]
    assert sum(pause < 0.5 for pause in pauses) in range(35, 66)
    assert len(set(pauses)) == 100
