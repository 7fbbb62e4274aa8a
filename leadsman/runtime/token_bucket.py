"""Limits work to so many a second, with some at once."""

import asyncio
import time
from collections.abc import Callable


class TokenBucket:
    """A token bucket. clock: monotonic seconds."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic):
        self.per_second, self._burst, self._clock = per_second, float(burst), clock
        self._tokens, self._at = self._burst, clock()

    async def wait(self) -> None:
        """Waits until it is this caller's turn; callers have theirs in the order in which they came."""
        delay = self.reserve()
        if delay > 0:
            await asyncio.sleep(delay)

    def try_take(self, amount: float = 1) -> bool:
        """Takes the tokens now or not at all, and tells which."""
        self._fill()
        if self._tokens < amount:
            return False
        self._tokens -= amount
        return True

    def reserve(self) -> float:
        """Takes a turn, and returns the seconds until it comes."""
        self._fill()
        self._tokens -= 1
        return max(0.0, -self._tokens / self.per_second)

    def _fill(self) -> None:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self.per_second)
        self._at = now
