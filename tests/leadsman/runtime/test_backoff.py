from random import Random

from leadsman.runtime.backoff import Backoff


class Longest(Random):
    """Always the longest pause that is allowed."""

    def uniform(self, a: float, b: float) -> float:
        return b


def test_the_limit_doubles_from_the_first_to_the_longest_pause() -> None:
    backoff = Backoff(0.5, 5.0, Longest())
    assert [backoff.next_seconds() for _ in range(6)] == [0.5, 1, 2, 4, 5, 5]
