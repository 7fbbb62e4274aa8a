"""Selects the peers to probe: half of k by the ring, a quarter at random, a quarter near, and requested ones. Pure.

    ring     the first k/2 that follow on the ring   every node is probed by as many; a join or leave moves one peer of
                                                     k/2 others; these links keep the graph connected
    random   k/4, one replaced every minute          long pairs, so that estimates hold across the whole network, and
                                                     new nodes to find near ones among
    near     k/4 by estimated RTT                    the pairs that bounds of a few milliseconds turn on

Slots that stay empty go to the next nodes on the ring, so with at most k + 1 nodes these are all pairs.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from random import Random
from typing import NamedTuple

from agent.rtt.peer import Peer
from leadsman.network import vivaldi
from leadsman.network.vivaldi import Coordinate
from leadsman.state import keys
from leadsman.state.records import BadRecord, RingEntry, decode_record
from leadsman.state.store import KeyRange, StoredItem

# Arcs of the ring of name hashes: the ranges to read, the members, and the number of nodes that they imply.

MAX_SAMPLES = 32
"""Arcs in the estimate. 16 and 32 x 8 steps leave a standard error of 6 %; at an arc each 15 s they span 8 minutes."""


class RingMember(NamedTuple):
    """Describes a node on the ring."""

    node: str
    entry: RingEntry


class Arc(NamedTuple):
    """Holds a part of the ring.

    start: ring position, inclusive.
    members: in the order of their positions.
    covers_ring: the arc has come round to its start, so its members are all nodes.
    """

    start: int
    members: tuple[RingMember, ...]
    covers_ring: bool

    @property
    def length(self) -> int:
        """Returns the arc's length in ring positions, from the start to the last member."""
        return (keys.ring_position(self.members[-1].node) - self.start) % keys.RING_SIZE if self.members else 0


DensitySample = tuple[int, int]
"""One measurement of the ring's density: how many members on how many positions."""


def range_to_end(start: int, count: int) -> KeyRange:
    """Returns the range of the first read of an arc of `count` members: up to the ring's end."""
    return KeyRange(keys.ring_position_prefix(start % keys.RING_SIZE), keys.RING_END, count)


def range_from_start(start: int, count: int) -> KeyRange:
    """Returns the range of the second read, when the first was short by `count`: from the ring's beginning."""
    return KeyRange(keys.RING_PREFIX, keys.ring_position_prefix(start % keys.RING_SIZE), count)


def decode_members(items: Iterable[StoredItem]) -> list[RingMember]:
    """Returns the members in these items. An entry that cannot be decoded is no member: nobody could reach it."""
    members = list[RingMember]()
    for item in items:
        if (node := keys.parse_ring_key(item.key)) is not None:
            with suppress(BadRecord):
                members.append(RingMember(node, decode_record(RingEntry, item.value)))
    return members


def estimate_nodes(samples: Sequence[DensitySample]) -> float:
    """Estimates the number of nodes on the ring, from arcs that do not overlap. 0.0 without a step.

    Names hash evenly, so the length of m steps is a sum of m exponential gaps of mean 1/n. (m - 1) / length has the
    mean n exactly and the standard error n / sqrt(m - 2).
    """
    steps, length = sum(steps for steps, _ in samples), sum(length for _, length in samples)
    return (steps - 1) * keys.RING_SIZE / length if steps > 1 and length else float(steps)


class RingSizeEstimator:
    """The number of nodes: counted while an arc covers the whole ring, estimated beyond.

    The own arc counts once, however often it is read, and each arc at a random position is another sample. The first
    random arc is none, because in a cluster that starts all at once most nodes are still to come.
    """

    def __init__(self) -> None:
        self._own: DensitySample = (0, 0)
        self._others: deque[DensitySample] = deque(maxlen=MAX_SAMPLES)
        self._first = True
        self._counted: int | None = None

    @property
    def nodes(self) -> float:
        """Returns the estimated number of nodes, with this node; 1.0 before the first arc."""
        if self._counted is not None:
            return float(self._counted)
        return max(1.0, estimate_nodes([self._own, *self._others]))

    def add_arcs(self, own_name: str, own: Arc, other: Arc) -> None:
        """Takes one read of both arcs. own: begins behind this node; ends with it if its entry is written already."""
        if own.covers_ring:
            self._counted = len({member.node for member in own.members} | {own_name})
            self._others.clear()
            return
        self._counted = None
        self._own = (len(own.members), own.length)
        self._first, first = False, self._first
        if not (other.covers_ring or first):
            self._others.append((len(other.members), other.length))


LOST_PEER_SECONDS = 300.0
MAX_LOST_PEERS = 8
"""Lost peers that are probed besides the others: as many as an agent probes on request."""


class LostPeers:
    """Peers that fell silent and then left the ring, and are probed on for a while.

    A node that dies leaves the ring when its lease expires. Whether it is dead may be decided later than that, when
    the API server was away; and a node that lives and only cannot reach etcd answers its probes all the time.
    """

    def __init__(self) -> None:
        self._probed: dict[str, Peer] = {}
        self._lost: dict[str, tuple[Peer, float]] = {}

    def update(self, selected: Iterable[Peer], silent: Collection[str], now: float) -> list[Peer]:
        """Returns the lost peers to probe besides the `selected` ones from now on. silent: peers that stopped
        answering."""
        by_name = {peer.name: peer for peer in selected}
        for name, peer in self._probed.items():
            if name in silent and name not in by_name:
                self._lost.setdefault(name, (peer, now + LOST_PEER_SECONDS))
        kept = [(n, entry) for n, entry in self._lost.items() if n not in by_name and entry[1] > now]
        self._lost = dict(kept[-MAX_LOST_PEERS:])
        lost = [peer for peer, _ in self._lost.values()]
        self._probed = by_name | {peer.name: peer for peer in lost}
        return lost

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._lost)

    def move(self, found: Iterable[RingMember]) -> None:
        """Takes the address of each lost peer that is on the ring again: another node may have its old one by now."""
        for node, entry in found:
            if node in self._lost:
                self._lost[node] = Peer(node, entry.address), self._lost[node][1]


# The nodes whose ring entries were read, and which of them are near. Pure: it holds state and does no I/O.
#
# Nearness is mutual: the estimate must also be within the reach that the other node publishes, its distance to the
# eighth nearest that it has read. Without that, a node in the middle of a star would be the nearest of all and be
# probed by all.

MAX_CANDIDATES = 64
"""Candidates that are kept. The farthest go first, so that the size of the cluster does not matter."""
EXPIRY_SECONDS = 600.0
"""A node whose entry was not read for so long may have left."""
HYSTERESIS_RATIO, HYSTERESIS_MS = 0.9, 0.05
"""A near peer is replaced only by one nearer than this: each change of peer starts an empty window."""


class Candidate(NamedTuple):
    """A node whose ring entry was read. seen_at_seconds: monotonic."""

    entry: RingEntry
    coordinate: Coordinate | None
    seen_at_seconds: float


class Candidates:
    def __init__(self, own_name: str) -> None:
        self._own_name = own_name
        self.by_name: dict[str, Candidate] = {}

    def update(self, members: Iterable[RingMember], now: float) -> None:
        """Takes entries that were read. now: monotonic seconds."""
        for node, entry in members:
            if node != self._own_name:
                self.by_name[node] = Candidate(entry, entry_coordinate(entry), now)

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
        """Returns (estimated RTT in milliseconds, name) of all candidates that have a coordinate, the nearest first."""
        placed = ((seen.coordinate, name) for name, seen in self.by_name.items())
        return sorted((vivaldi.estimate_ms(own, there), name) for there, name in placed if there is not None)

    def mutually_near(
        self, own: Coordinate, count: int, current: Collection[str], taken: Collection[str], now: float
    ) -> list[str]:
        """Returns the at most `count` nearest by both nodes' view, of the candidates read at `now`.

        current: near peers, which stay unless others are clearly nearer. taken: peers for another reason, never near
        peers too.
        """
        mutual = [
            (ms, name)
            for ms, name in self.by_distance(own)
            if name not in taken
            and (seen := self.by_name[name]).seen_at_seconds >= now
            and seen.entry.reach_ms is not None
            and ms <= seen.entry.reach_ms
        ]
        ranked = sorted((ms * HYSTERESIS_RATIO - HYSTERESIS_MS if name in current else ms, name) for ms, name in mutual)
        return [name for _, name in ranked[:count]]

    def referrals(self, own: Coordinate, count: int) -> list[str]:
        """Returns nodes that the nearest candidates publish as near to themselves, and whose entries were not read
        yet."""
        published = (name for _, who in self.by_distance(own) for name in self.by_name[who].entry.near)
        strangers = (name for name in dict.fromkeys(published) if name not in self.by_name and name != self._own_name)
        return list(islice(filter(keys.is_node_name, strangers), count))


def entry_coordinate(entry: RingEntry) -> Coordinate | None:
    """Returns the coordinate in a ring entry; None when it has none, or one of another number of dimensions."""
    there = entry.coordinate
    if there is None or len(there.point) != vivaldi.DIMENSIONS:
        return None
    return Coordinate(there.point, there.height, there.adjustment, there.error)


RANDOM_ARC_SIZE = 8
"""Members read at a random position. One of them is taken at random: always the first would favour nodes behind a wide
gap on the ring, and they would be probed by more."""
NEAR_CANDIDATES = 4
"""Nearest nodes that are no near peers yet. They may have left, so their entries are read before they become peers."""
MAX_REFERRALS = 4
"""At most so many of the nodes that near peers name have their entries read at a time."""
RANDOM_REPLACE_SECONDS = 60.0
"""The time between two replacements of a random peer."""
MAX_REQUESTED = 8
REQUESTED_SECONDS = 300.0
"""Says how long a requested pair stays measured. Another request prolongs it."""


class RingQuery(NamedTuple):
    """One read of the ring.

    own_start, size: the arc behind this node.
    random_start: of an arc of RANDOM_ARC_SIZE members.
    nodes: names whose entries are read.
    """

    own_start: int
    random_start: int
    size: int
    nodes: tuple[str, ...]


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
        self._replace_at = float("-inf")

    def next_query(self, now: float, lost: Iterable[str] = ()) -> RingQuery:
        """Returns the next read. Peers that are not the next on the ring are read again, in case they moved or left,
        and `lost` ones in case they came back."""
        self._expire(now)
        current = (*self._random, *self._near, *self._requested)
        own = self._own_coordinate()
        nearest = [name for _, name in self.candidates.by_distance(own) if name not in current][:NEAR_CANDIDATES]
        names = dict.fromkeys((*current, *nearest, *self.candidates.referrals(own, MAX_REFERRALS), *lost))
        return RingQuery(
            keys.ring_position(self.own_name) + 1, self._rng.randrange(keys.RING_SIZE), self.k, tuple(names)
        )

    def apply_result(
        self, query: RingQuery, own_arc: Arc, random_arc: Arc, found: Collection[RingMember], now: float
    ) -> None:
        """Selects by what the query read. found: of its nodes, those that have an entry. now: monotonic seconds."""
        self.ring_size.add_arcs(self.own_name, own_arc, random_arc)
        self._drop(set(query.nodes) - {member.node for member in found})
        self.candidates.update((*found, *random_arc.members, *own_arc.members), now)
        self._successors = [member.node for member in own_arc.members if member.node != self.own_name]
        self._take_random(random_arc, now)
        own, quarter = self._own_coordinate(), self.k // 4
        self._near = self.candidates.mutually_near(own, quarter, self._near, {*self.ring_peers(), *self._random}, now)
        self.candidates.trim(own, self._all(), now)

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
        """Returns the next k nodes on the ring, whose names a metric may carry: they change only when nodes join or
        leave.

        A random peer is replaced every minute: with its name as a label, each node would make 1,480 new series in two
        hours. Near peers change with the noise of coordinates.
        """
        return frozenset(self._successors[: self.k])

    def peers(self, now: float) -> list[Peer]:
        """Returns the k peers and the requested ones."""
        self._expire(now)
        candidates = self.candidates.by_name
        return [Peer(name, candidates[name].entry.address) for name in self._all() if name in candidates]

    def ring_peers(self) -> list[str]:
        """Returns the peers that follow on the ring."""
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
