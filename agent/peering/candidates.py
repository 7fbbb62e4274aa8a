"""The nodes that were seen, and which of them are near. Pure but for what it remembers.

A node is near to another only if both find so: the estimate must be within the reach that the other publishes, its
distance to the eighth nearest that it knows. Without that, a node in the middle of a star would be the nearest of
all, and be probed by all.
"""

from collections.abc import Collection, Iterable
from itertools import islice
from typing import NamedTuple

from agent.peering.ring import RingMember
from leadsman.network import vivaldi
from leadsman.network.vivaldi import Coordinate
from leadsman.state import keys
from leadsman.state.records import RingEntry

MAX_CANDIDATES = 64
"""Remembered. The farthest go first, so that it does not matter how many there are."""
EXPIRY_SECONDS = 600.0
"""A node not read of for so long may have left."""
REACH_RANK = 8
HYSTERESIS_RATIO, HYSTERESIS_MS = 0.9, 0.05
"""A near peer gives way to one nearer than this: the window of a peer starts anew with each change."""


class Candidate(NamedTuple):
    entry: RingEntry
    coordinate: Coordinate | None
    revision: int
    seen_at_seconds: float


class Candidates:
    def __init__(self, own_name: str) -> None:
        self._own_name = own_name
        self.by_name: dict[str, Candidate] = {}

    def update(self, members: Iterable[RingMember], now: float) -> None:
        """now: monotonic seconds."""
        for node, entry, revision in members:
            if node != self._own_name:
                self.by_name[node] = Candidate(entry, entry_coordinate(entry), revision, now)

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self.by_name.pop(name, None)

    def coordinate_of(self, name: str) -> Coordinate | None:
        seen = self.by_name.get(name)
        return seen.coordinate if seen else None

    def trim(self, own: Coordinate, keep: Collection[str], now: float) -> None:
        """Down to MOST, of which `keep` all stay."""
        old = [
            name
            for name, seen in self.by_name.items()
            if now - seen.seen_at_seconds > EXPIRY_SECONDS and name not in keep
        ]
        self.remove(old)
        spare = [name for _, name in self.by_distance(own) if name not in keep]
        spare += [name for name, seen in self.by_name.items() if seen.coordinate is None and name not in keep]
        surplus = len(self.by_name) - MAX_CANDIDATES
        self.remove(spare[-surplus:] if surplus > 0 else ())

    def by_distance(self, own: Coordinate) -> list[tuple[float, str]]:
        """Estimated RTT and name of all that have a coordinate, the nearest first."""
        placed = ((seen.coordinate, name) for name, seen in self.by_name.items())
        return sorted((vivaldi.estimate_ms(own, there), name) for there, name in placed if there is not None)

    def mutually_near(
        self, own: Coordinate, count: int, held: Collection[str], taken: Collection[str], now: float
    ) -> list[str]:
        """At most `count` of those read of just now, and none taken otherwise; `held` now stay unless others are
        clearly nearer."""
        here = [
            (ms, name)
            for ms, name in self.by_distance(own)
            if name not in taken and self.by_name[name].seen_at_seconds >= now
        ]
        mutual = [(ms, name) for ms, name in here if self._within_reach(ms, name)]
        ranked = sorted((ms * HYSTERESIS_RATIO - HYSTERESIS_MS if name in held else ms, name) for ms, name in mutual)
        return [name for _, name in ranked[:count]]

    def reach_ms(self, own: Coordinate) -> float | None:
        """To the REACH_RANK-th nearest known; to the farthest when there are fewer."""
        nearest = self.by_distance(own)[:REACH_RANK]
        return nearest[-1][0] if nearest else None

    def referrals(self, own: Coordinate, count: int) -> list[str]:
        """Names that the nearest know to be near to them, and of whom nothing was read yet."""
        told = (name for _, who in self.by_distance(own) for name in self.by_name[who].entry.near)
        strangers = (name for name in dict.fromkeys(told) if name not in self.by_name and name != self._own_name)
        return list(islice(filter(keys.is_node_name, strangers), count))

    def _within_reach(self, estimate_ms: float, name: str) -> bool:
        reach = self.by_name[name].entry.reach_ms
        return reach is not None and estimate_ms <= reach


def entry_coordinate(entry: RingEntry) -> Coordinate | None:
    """None: nothing was published, or with another number of dimensions than ours."""
    there = entry.coordinate
    if there is None or len(there.point) != vivaldi.DEFAULT_PARAMETERS.dimensions:
        return None
    return Coordinate(there.point, there.height, there.adjustment, there.error)
