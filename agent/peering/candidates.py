"""The nodes whose ring entries were read, and which of them are near. Pure: it holds state and does no I/O.

Nearness is mutual: the estimate must also be within the reach that the other node publishes, its distance to the eighth
nearest that it has read. Without that, a node in the middle of a star would be the nearest of all and be probed by all.
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
"""Candidates that are kept. The farthest go first, so that the size of the cluster does not matter."""
EXPIRY_SECONDS = 600.0
"""A node whose entry was not read for so long may have left."""
REACH_RANK = 8
HYSTERESIS_RATIO, HYSTERESIS_MS = 0.9, 0.05
"""A near peer is replaced only by one nearer than this: each change of peer starts an empty window."""


class Candidate(NamedTuple):
    """A node whose ring entry was read. seen_at_seconds: monotonic."""

    entry: RingEntry
    coordinate: Coordinate | None
    revision: int
    seen_at_seconds: float


class Candidates:
    def __init__(self, own_name: str) -> None:
        self._own_name = own_name
        self.by_name: dict[str, Candidate] = {}

    def update(self, members: Iterable[RingMember], now: float) -> None:
        """Takes entries that were read. now: monotonic seconds."""
        for node, entry, revision in members:
            if node != self._own_name:
                self.by_name[node] = Candidate(entry, entry_coordinate(entry), revision, now)

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self.by_name.pop(name, None)

    def coordinate_of(self, name: str) -> Coordinate | None:
        candidate = self.by_name.get(name)
        return candidate.coordinate if candidate else None

    def trim(self, own: Coordinate, keep: Collection[str], now: float) -> None:
        """Drops expired candidates, and the farthest beyond MAX_CANDIDATES. All of `keep` stay."""
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
        """(estimated RTT in milliseconds, name) of all candidates that have a coordinate, the nearest first."""
        placed = ((seen.coordinate, name) for name, seen in self.by_name.items())
        return sorted((vivaldi.estimate_ms(own, there), name) for there, name in placed if there is not None)

    def mutually_near(
        self, own: Coordinate, count: int, current: Collection[str], taken: Collection[str], now: float
    ) -> list[str]:
        """The at most `count` nearest by both nodes' view, of the candidates read at `now`.

        current: near peers, which stay unless others are clearly nearer. taken: peers for another reason, never near
        peers too.
        """
        here = [
            (ms, name)
            for ms, name in self.by_distance(own)
            if name not in taken and self.by_name[name].seen_at_seconds >= now
        ]
        mutual = [(ms, name) for ms, name in here if self._within_reach(ms, name)]
        ranked = sorted((ms * HYSTERESIS_RATIO - HYSTERESIS_MS if name in current else ms, name) for ms, name in mutual)
        return [name for _, name in ranked[:count]]

    def reach_ms(self, own: Coordinate) -> float | None:
        """Estimated RTT to the REACH_RANK-th nearest candidate, or to the farthest when there are fewer."""
        nearest = self.by_distance(own)[:REACH_RANK]
        return nearest[-1][0] if nearest else None

    def referrals(self, own: Coordinate, count: int) -> list[str]:
        """Nodes that the nearest candidates publish as near to themselves, and whose entries were not read yet."""
        published = (name for _, who in self.by_distance(own) for name in self.by_name[who].entry.near)
        strangers = (name for name in dict.fromkeys(published) if name not in self.by_name and name != self._own_name)
        return list(islice(filter(keys.is_node_name, strangers), count))

    def _within_reach(self, estimate_ms: float, name: str) -> bool:
        reach = self.by_name[name].entry.reach_ms
        return reach is not None and estimate_ms <= reach


def entry_coordinate(entry: RingEntry) -> Coordinate | None:
    """The coordinate in a ring entry; None when it has none, or one of another number of dimensions."""
    there = entry.coordinate
    if there is None or len(there.point) != vivaldi.DEFAULT_PARAMETERS.dimensions:
        return None
    return Coordinate(there.point, there.height, there.adjustment, there.error)
