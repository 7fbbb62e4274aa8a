"""Times the pauses between failing attempts: random, below a limit that doubles."""

from math import inf
from random import Random


class Backoff:
    """Gives the pause before each new attempt: `next_seconds` after a failure, `reset` after a success.

    first_seconds: the limit of the first pause. max_seconds: the limit never grows past this.

    A pause is anything from 0 to the limit, so that processes that failed together do not return together
    (M. Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015: "full jitter").
    """

    def __init__(self, first_seconds: float, max_seconds: float, rng: Random) -> None:
        self._first_seconds, self._max_seconds, self._rng = first_seconds, max_seconds, rng
        self._limit_seconds = first_seconds

    def next_seconds(self, max_seconds: float = inf) -> float:
        """Returns the next pause. max_seconds: this one is no longer."""
        limit, self._limit_seconds = self._limit_seconds, min(self._max_seconds, 2 * self._limit_seconds)
        return self._rng.uniform(0, min(limit, max_seconds))

    def reset(self) -> None:
        self._limit_seconds = self._first_seconds
