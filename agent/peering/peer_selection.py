"""Whom to probe: half of the k peers by the ring, a quarter at random, a quarter near, and those asked for. Pure.

    ring     the first k/2 that follow on the ring   every node is probed by as many; a join or leave moves one peer of
                                                     k/2 others; with the others it makes the graph connected
    random   k/4, one replaced every minute          long pairs, so that estimates hold across the whole network, and
                                                     unknown nodes to find near ones among
    near     k/4 by estimated RTT                    the pairs that bounds of a few milliseconds turn on

Slots that nobody fills go to the next on the ring, so with at most k + 1 nodes these are all pairs.
"""

from collections.abc import Callable, Collection
from random import Random
from typing import NamedTuple

from agent.peering.candidates import Candidates
from agent.peering.ring import Arc, RingMember, RingSizeEstimator
from agent.rtt.peer import Peer
from leadsman.network.vivaldi import Coordinate
from leadsman.state import keys
from leadsman.state.records import RingEntry

RANDOM_ARC_SIZE = 8
"""Members read at a random place. One of them is taken at random: the first alone would be whoever has a gap before
it, and be probed by as many more as its gap is wide."""
NEAR_CANDIDATES = 4
"""Nearest ones that are no near peers yet. They may have left, so only those read of anew become any."""
MAX_REFERRALS = 4
"""Strangers read about at a time, because near peers name them."""
RANDOM_REPLACE_SECONDS = 60.0
"""Between two replacements of a random peer."""
MAX_REQUESTED = 8
REQUESTED_SECONDS = 300.0
"""How long a pair that was asked for stays measured. Asking again prolongs it."""
MAX_PUBLISHED_NEAR = 4


class RingQuery(NamedTuple):
    """What to read: `size` members from place `own` on, a few from `other` on, and the entries of these nodes."""

    own_start: int
    random_start: int
    size: int
    nodes: tuple[str, ...]


class RingReadResult(NamedTuple):
    """members: of the names wanted, those that have an entry."""

    own_arc: Arc
    random_arc: Arc
    members: tuple[RingMember, ...]


class PeerSelection:
    """k: peers at most, requested ones besides. where: this node's coordinate now."""

    def __init__(self, own_name: str, k: int, where: Callable[[], Coordinate], rng: Random) -> None:
        self.own_name, self.k = own_name, k
        self.candidates, self.ring_size = Candidates(own_name), RingSizeEstimator()
        self._where, self._rng = where, rng
        self._successors: list[str] = []
        self._random: list[str] = []
        self._near: list[str] = []
        self._requested: dict[str, float] = {}
        self._replace_at = float("-inf")

    def next_query(self, now: float) -> RingQuery:
        """The next reads. All that is probed off the ring is read of again, in case it moved or left."""
        self._expire(now)
        held = (*self._random, *self._near, *self._requested)
        here = self._where()
        hopeful = [name for _, name in self.candidates.by_distance(here) if name not in held][:NEAR_CANDIDATES]
        names = dict.fromkeys((*held, *hopeful, *self.candidates.referrals(here, MAX_REFERRALS)))
        return RingQuery(
            keys.ring_position(self.own_name) + 1, self._rng.randrange(keys.RING_SIZE), self.k, tuple(names)
        )

    def apply_result(self, found: RingReadResult, wanted: RingQuery, now: float) -> None:
        """What the reads brought. now: monotonic seconds."""
        self.ring_size.add_arcs(self.own_name, found.own_arc, found.random_arc)
        here = {member.node for member in found.members}
        self._drop([name for name in wanted.nodes if name not in here])
        self.candidates.update((*found.members, *found.random_arc.members, *found.own_arc.members), now)
        self._successors = [member.node for member in found.own_arc.members if member.node != self.own_name]
        self._take_random(found.random_arc, now)
        own, quarter = self._where(), self.k // 4
        self._near = self.candidates.mutually_near(own, quarter, self._near, {*self.ring_peers(), *self._random}, now)
        self.candidates.trim(own, self._all(), now)

    def add_requested(self, member: RingMember, now: float) -> bool:
        """Measures this one too for REQUESTED_SECONDS; False when as many as may be are asked for already."""
        self._expire(now)
        if member.node not in self._requested and len(self._requested) >= MAX_REQUESTED:
            return False
        self.candidates.update([member], now)
        self._requested[member.node] = now + REQUESTED_SECONDS
        return True

    @property
    def requested(self) -> frozenset[str]:
        return frozenset(self._requested)

    def peers(self, now: float) -> list[Peer]:
        """The k, and those asked for."""
        self._expire(now)
        seen = self.candidates.by_name
        return [_peer(name, seen[name].entry) for name in self._all() if name in seen]

    def published_near(self) -> tuple[str, ...]:
        """For others in search of near peers. Sorted, so that the same ones are the same entry."""
        return tuple(sorted(name for _, name in self.candidates.by_distance(self._where())[:MAX_PUBLISHED_NEAR]))

    def ring_peers(self) -> list[str]:
        """The peers that follow on the ring."""
        return self._successors[: self.k - 2 * (self.k // 4)]

    def _all(self) -> list[str]:
        chosen = dict.fromkeys((*self.ring_peers(), *self._random, *self._near))
        for name in self._successors:
            if len(chosen) >= self.k:
                break
            chosen[name] = None
        return list(dict.fromkeys((*chosen, *self._requested)))

    def _take_random(self, other: Arc, now: float) -> None:
        """One replaced when it is time; missing ones at once. Those that the ring has taken make room."""
        quarter = self.k // 4
        self._random = [name for name in self._random if name not in self.ring_peers()]
        strangers = [m.node for m in other.members if m.node not in (self.own_name, *self.ring_peers(), *self._random)]
        due = now >= self._replace_at and len(self._random) == quarter > 0 and strangers
        missing = quarter - len(self._random) + bool(due)
        self._random += self._rng.sample(strangers, min(missing, len(strangers)))
        self._random = self._random[-quarter:] if quarter else []
        if due or self._replace_at == float("-inf"):
            self._replace_at = now + RANDOM_REPLACE_SECONDS

    def _drop(self, names: Collection[str]) -> None:
        self.candidates.remove(names)
        self._random = [name for name in self._random if name not in names]
        self._near = [name for name in self._near if name not in names]
        self._requested = {name: until for name, until in self._requested.items() if name not in names}

    def _expire(self, now: float) -> None:
        self._requested = {name: until for name, until in self._requested.items() if until > now}


def _peer(name: str, entry: RingEntry) -> Peer:
    return Peer(name, entry.address, entry.zone, entry.rack)
