"""Selects the peers to probe: half of k by the ring, a quarter at random, a quarter near, and requested ones. Pure.

    ring     the first k/2 that follow on the ring   every node is probed by as many; a join or leave moves one peer of
                                                     k/2 others; these links keep the graph connected
    random   k/4, one replaced every minute          long pairs, so that estimates hold across the whole network, and
                                                     new nodes to find near ones among
    near     k/4 by estimated RTT                    the pairs that bounds of a few milliseconds turn on

Slots that stay empty go to the next nodes on the ring, so with at most k + 1 nodes these are all pairs.
"""

from collections.abc import Callable, Collection
from random import Random
from typing import NamedTuple

from agent.peering.candidates import Candidates
from agent.peering.lasting_peers import LastingPeers
from agent.peering.ring import Arc, RingMember, RingSizeEstimator
from agent.rtt.peer import Peer
from leadsman.network.vivaldi import Coordinate
from leadsman.state import keys
from leadsman.state.records import RingEntry

RANDOM_ARC_SIZE = 8
"""Members read at a random position. One of them is taken at random: always the first would favour nodes behind a wide
gap on the ring, and they would be probed by more."""
NEAR_CANDIDATES = 4
"""Nearest nodes that are no near peers yet. They may have left, so their entries are read before they become peers."""
MAX_REFERRALS = 4
"""Nodes that near peers name, whose entries are read at a time."""
RANDOM_REPLACE_SECONDS = 60.0
"""The time between two replacements of a random peer."""
MAX_REQUESTED = 8
REQUESTED_SECONDS = 300.0
"""How long a requested pair stays measured. Another request prolongs it."""
MAX_PUBLISHED_NEAR = 4


class RingQuery(NamedTuple):
    """What to read from the ring.

    own_start, size: the arc behind this node.
    random_start: of an arc of RANDOM_ARC_SIZE members.
    nodes: names whose entries are read.
    """

    own_start: int
    random_start: int
    size: int
    nodes: tuple[str, ...]


class RingReadResult(NamedTuple):
    """What was read. members: of the query's nodes, those that have an entry."""

    own_arc: Arc
    random_arc: Arc
    members: tuple[RingMember, ...]


class PeerSelection:
    """The peers of this node, and what is read next to keep them current."""

    def __init__(self, own_name: str, k: int, own_coordinate: Callable[[], Coordinate], rng: Random) -> None:
        """k: peers at most, requested ones not counted."""
        self.own_name, self.k = own_name, k
        self.candidates, self.ring_size = Candidates(own_name), RingSizeEstimator()
        self._own_coordinate, self._rng = own_coordinate, rng
        self._successors: list[str] = []
        self._random: list[str] = []
        self._near: list[str] = []
        self._requested: dict[str, float] = {}
        self._lasting = LastingPeers(k // 4)
        self._replace_at = float("-inf")

    def next_query(self, now: float) -> RingQuery:
        """The next read. Peers that are not the next on the ring are read again, in case they moved or left."""
        self._expire(now)
        current = (*self._random, *self._near, *self._requested)
        own = self._own_coordinate()
        nearest = [name for _, name in self.candidates.by_distance(own) if name not in current][:NEAR_CANDIDATES]
        names = dict.fromkeys((*current, *nearest, *self.candidates.referrals(own, MAX_REFERRALS)))
        return RingQuery(
            keys.ring_position(self.own_name) + 1, self._rng.randrange(keys.RING_SIZE), self.k, tuple(names)
        )

    def apply_result(self, result: RingReadResult, query: RingQuery, now: float) -> None:
        """Selects by what the query read. now: monotonic seconds."""
        self.ring_size.add_arcs(self.own_name, result.own_arc, result.random_arc)
        present = {member.node for member in result.members}
        self._drop([name for name in query.nodes if name not in present])
        self.candidates.update((*result.members, *result.random_arc.members, *result.own_arc.members), now)
        self._successors = [member.node for member in result.own_arc.members if member.node != self.own_name]
        self._take_random(result.random_arc, now)
        own, quarter = self._own_coordinate(), self.k // 4
        self._near = self.candidates.mutually_near(own, quarter, self._near, {*self.ring_peers(), *self._random}, now)
        self.candidates.trim(own, self._all(), now)
        self._lasting.update(self._successors[: self.k], self._near, now)

    def add_requested(self, member: RingMember, now: float) -> bool:
        """Makes the node a peer for REQUESTED_SECONDS; False when MAX_REQUESTED are requested already."""
        self._expire(now)
        if member.node not in self._requested and len(self._requested) >= MAX_REQUESTED:
            return False
        self.candidates.update([member], now)
        self._requested[member.node] = now + REQUESTED_SECONDS
        return True

    @property
    def requested(self) -> frozenset[str]:
        return frozenset(self._requested)

    @property
    def lasting_names(self) -> frozenset[str]:
        """Names of peers that are peers for long, see agent.peering.lasting_peers; some may be no peers now."""
        return self._lasting.names

    def peers(self, now: float) -> list[Peer]:
        """The k peers and the requested ones."""
        self._expire(now)
        candidates = self.candidates.by_name
        return [_peer(name, candidates[name].entry) for name in self._all() if name in candidates]

    def published_near(self) -> tuple[str, ...]:
        """The nearest nodes, for others in search of near peers. Sorted, so that the same set is the same entry."""
        return tuple(
            sorted(name for _, name in self.candidates.by_distance(self._own_coordinate())[:MAX_PUBLISHED_NEAR])
        )

    def ring_peers(self) -> list[str]:
        """The peers that follow on the ring."""
        return self._successors[: self.k - 2 * (self.k // 4)]

    def _all(self) -> list[str]:
        names = dict.fromkeys((*self.ring_peers(), *self._random, *self._near))
        for name in self._successors:
            if len(names) >= self.k:
                break
            names[name] = None
        return list(dict.fromkeys((*names, *self._requested)))

    def _take_random(self, other: Arc, now: float) -> None:
        """Replaces one random peer when it is due and missing ones at once. Those that became ring peers make room."""
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
