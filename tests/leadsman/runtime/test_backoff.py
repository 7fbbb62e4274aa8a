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


@given(some.integers(), some.floats(0.01, 10), some.floats(10, 1000), some.integers(1, 3000))
def test_no_pause_is_longer_than_the_longest(seed: int, first: float, longest: float, failures: int) -> None:
    backoff = Backoff(first, longest, Random(seed))
    assert all(0 <= backoff.next_seconds() <= longest for _ in range(failures))
