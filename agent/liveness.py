"""Finds loops of the agent that make no progress. While one hangs, /healthz fails and reports stop. Pure."""

from collections.abc import Callable, Mapping

from msgspec import Struct


class LoopLiveness(Struct):
    """Watches counts of completed rounds.

    loops: name → its count of completed rounds.
    limit_seconds: a loop whose count does not change for so long is stalled.
    clock: monotonic seconds.
    """

    loops: Mapping[str, Callable[[], int]]
    limit_seconds: float
    clock: Callable[[], float]
    _seen: dict[str, tuple[int, float]] = {}

    def stalled(self) -> dict[str, float]:
        """Loop → seconds since its count last moved, for those beyond the limit."""
        now = self.clock()
        ages = {name: self._age(name, rounds(), now) for name, rounds in self.loops.items()}
        return {name: age for name, age in ages.items() if age > self.limit_seconds}

    def _age(self, name: str, rounds: int, now: float) -> float:
        count, since = self._seen.setdefault(name, (rounds, now))
        if count != rounds:
            self._seen[name] = (rounds, now)
            return 0.0
        return now - since
