"""Where this node stands in the network, moved with every few replies, and how it says so. Pure but for its memory.

Peers' coordinates are read now and then and so are old by half a minute. Pulling on an old one again and again would
move two nodes past each other, so each reading of a coordinate is used a few times only.
"""

from collections import deque
from random import Random

from topology import vivaldi
from topology.vivaldi import Coordinate, Position

USES = 4
"""Of one reading of a peer's coordinate."""
_SMOOTHED = 5
"""Replies whose median counts as the round trip: two stragglers in a row move nothing."""


class Coordinates:
    """resets: how often the own one made no sense and began anew."""

    def __init__(self, rng: Random) -> None:
        self.position = vivaldi.origin()
        self.resets = 0
        self._rng = rng
        self._replies: dict[str, deque[float]] = {}
        self._uses: dict[str, int] = {}

    @property
    def own(self) -> Coordinate:
        return self.position.coordinate

    def renewed(self, peers: set[str]) -> None:
        """Coordinates were read again. Nothing is kept of who is no peer any more."""
        self._replies = {name: replies for name, replies in self._replies.items() if name in peers}
        self._uses.clear()

    def heard(self, name: str, rtt_ms: float, there: Coordinate | None) -> None:
        """A peer answered. there: its coordinate as last read; None: not known."""
        if not vivaldi.SHORTEST_MS <= rtt_ms <= vivaldi.LONGEST_MS:
            return
        replies = self._replies.setdefault(name, deque(maxlen=_SMOOTHED))
        replies.append(rtt_ms)
        used = self._uses.get(name, 0)
        if there is None or used >= USES:
            return
        self._uses[name] = used + 1
        self._move(vivaldi.update(self.position, there, sorted(replies)[len(replies) // 2], self._rng))

    def _move(self, after: Position) -> None:
        if vivaldi.is_sensible(after.coordinate):
            self.position = after
        else:
            self.resets += 1
            self.position = vivaldi.origin()
