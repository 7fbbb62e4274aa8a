"""Which peers are peers for long, so that a metric may carry their names. Pure.

A random peer is replaced every minute: with its name as a label, each node would make 1,480 new series in two hours.
The next nodes on the ring change only when nodes join or leave. Near peers change with the noise of coordinates, so
they have a few slots, each of which gets at most one other name a day.
"""

from collections.abc import Collection

SETTLED_SECONDS = 3600.0
"""A peer takes a slot after so long among the near ones; a pause shorter than this is none."""
SLOT_SECONDS = 86400.0
"""A peer keeps its slot until it has not been near for so long."""


class LastingPeers:
    """slots: near peers at most whose names last.

    names: the peers whose names last, those of slots also while they are not near.
    """

    def __init__(self, slots: int) -> None:
        self.names: frozenset[str] = frozenset()
        self._slots = slots
        self._near_since: dict[str, float] = {}
        self._last_near: dict[str, float] = {}
        self._slotted: list[str] = []

    def update(self, next_on_ring: Collection[str], near: Collection[str], now: float) -> None:
        """next_on_ring: as many as there are peers. now: monotonic seconds."""
        for name in near:
            self._near_since.setdefault(name, now)
            self._last_near[name] = now
        self._slotted = [name for name in self._slotted if now - self._last_near[name] < SLOT_SECONDS]
        settled = (name for name in near if now - self._near_since[name] >= SETTLED_SECONDS)
        new = [name for name in settled if name not in self._slotted and name not in next_on_ring]
        self._slotted += new[: self._slots - len(self._slotted)]
        for name, last in list(self._last_near.items()):
            if now - last > SETTLED_SECONDS and name not in self._slotted:
                del self._last_near[name], self._near_since[name]
        self.names = frozenset((*next_on_ring, *self._slotted))
