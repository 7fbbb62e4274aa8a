"""This node's network coordinate, which moves with its peers' replies. Pure: it holds state and does no I/O.

Peers' coordinates are read every so often, and so are up to half a minute old. Pulling on an old one again and again
would move two nodes past each other, so each read of a coordinate is used a few times only.
"""

from collections import deque
from random import Random

from leadsman.network import vivaldi
from leadsman.network.vivaldi import Coordinate, VivaldiState

MAX_USES_PER_READ = 4
"""How often one read of a peer's coordinate is used."""
_MEDIAN_OF_REPLIES = 5
"""Replies whose median counts as the round trip: two late ones in a row move nothing."""


class OwnCoordinate:
    """The Vivaldi state of this node.

    resets: how often the coordinate became invalid and started again at the origin.
    """

    def __init__(self, rng: Random) -> None:
        self.position = vivaldi.initial_state()
        self.resets = 0
        self._rng = rng
        self._replies: dict[str, deque[float]] = {}
        self._uses: dict[str, int] = {}

    @property
    def current(self) -> Coordinate:
        return self.position.coordinate

    def on_peers_read(self, peers: set[str]) -> None:
        """Peers' coordinates were read again. Replies of nodes that are no longer peers are dropped."""
        self._replies = {name: replies for name, replies in self._replies.items() if name in peers}
        self._uses.clear()

    def update(self, name: str, rtt_ms: float, there: Coordinate | None) -> None:
        """Moves the coordinate by a peer's reply. there: the peer's coordinate as last read; None when it has none."""
        if not vivaldi.MIN_RTT_MS <= rtt_ms <= vivaldi.MAX_RTT_MS:
            return
        replies = self._replies.setdefault(name, deque(maxlen=_MEDIAN_OF_REPLIES))
        replies.append(rtt_ms)
        used = self._uses.get(name, 0)
        if there is None or used >= MAX_USES_PER_READ:
            return
        self._uses[name] = used + 1
        self._move(vivaldi.update(self.position, there, sorted(replies)[len(replies) // 2], self._rng))

    def _move(self, after: VivaldiState) -> None:
        if vivaldi.is_valid(after.coordinate):
            self.position = after
        else:
            self.resets += 1
            self.position = vivaldi.initial_state()
