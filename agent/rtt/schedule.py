"""Schedules each key once an interval, ± 10 %, at a phase of its own. Pure.

Random phases spread the probes over the interval and keep agents that started together from probing together.
"""

import heapq
from collections.abc import Hashable
from random import Random
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_JITTER = 0.1
MAX_FIRST_DELAY_SECONDS = 1.0
"""A new key comes first within this time, however long the interval is."""


class ProbeSchedule(Generic[K]):
    """The next due time of each key."""

    def __init__(self, interval_seconds: float, rng: Random) -> None:
        self.interval_seconds = interval_seconds
        """May be changed; a change holds from each key's next turn on."""
        self._rng = rng
        self._heap: list[tuple[float, int, K]] = []
        self._serials: dict[K, int] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._serials)

    def add(self, key: K, now: float) -> None:
        """Adds a key, first due at a random time within an interval, or MAX_FIRST_DELAY_SECONDS if that is shorter."""
        self._serial += 1
        self._serials[key] = self._serial
        first = self._rng.random() * min(self.interval_seconds, MAX_FIRST_DELAY_SECONDS)
        heapq.heappush(self._heap, (now + first, self._serial, key))

    def hasten(self, key: K, when: float) -> None:
        """Moves the key's next turn forward to `when`; the turns after it follow from there."""
        self._serial += 1
        self._serials[key] = self._serial
        heapq.heappush(self._heap, (when, self._serial, key))

    def remove(self, key: K) -> None:
        del self._serials[key]

    def due(self, now: float) -> list[K]:
        """The keys that are due, each once. Turns that were missed are not caught up."""
        keys = []
        while self._heap and self._heap[0][0] <= now:
            when, serial, key = heapq.heappop(self._heap)
            if self._serials.get(key) == serial:
                keys.append(key)
                heapq.heappush(self._heap, (self._next(when, now), serial, key))
        return keys

    def wait_seconds(self, now: float) -> float | None:
        """Seconds until the next key is due; None when there is no key."""
        return max(0.0, self._heap[0][0] - now) if self._heap else None

    def _next(self, when: float, now: float) -> float:
        step = self.interval_seconds * self._rng.uniform(1 - _JITTER, 1 + _JITTER)
        return when + step if when + step > now else now + step
