"""Arcs of the ring of name hashes: the ranges to read, the members, and the number of nodes that they imply. Pure."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from leadsman.state import keys
from leadsman.state.records import BadRecord, RingEntry, decode_record
from leadsman.state.store import KeyRange, StoredItem

MAX_SAMPLES = 32
"""Arcs in the estimate. 16 and 32 x 8 steps leave a standard error of 6 %; at an arc each 15 s they span 8 minutes."""


class RingMember(NamedTuple):
    """A node on the ring. revision: of its entry in the store."""

    node: str
    entry: RingEntry
    revision: int = 0


class Arc(NamedTuple):
    """A part of the ring.

    start: ring position, inclusive.
    members: in the order of their positions.
    covers_ring: the arc has come round to its start, so its members are all nodes.
    """

    start: int
    members: tuple[RingMember, ...]
    covers_ring: bool

    @property
    def length(self) -> int:
        """In ring positions, from the start to the last member."""
        return (keys.ring_position(self.members[-1].node) - self.start) % keys.RING_SIZE if self.members else 0


class DensitySample(NamedTuple):
    """One measurement of the ring's density: `steps` members on `length` positions."""

    steps: int
    length: int


def range_to_end(start: int, count: int) -> KeyRange:
    """The range of the first read of an arc of `count` members: up to the ring's end."""
    return KeyRange(keys.ring_position_prefix(start % keys.RING_SIZE), keys.RING_END, count)


def range_from_start(start: int, count: int) -> KeyRange:
    """The range of the second read, when the first was short by `count`: from the ring's beginning."""
    return KeyRange(keys.RING_PREFIX, keys.ring_position_prefix(start % keys.RING_SIZE), count)


def decode_members(items: Iterable[StoredItem]) -> list[RingMember]:
    """The members in these items. An entry that cannot be decoded is no member: nobody could reach it."""
    named = ((item, keys.parse_ring_key(item.key)) for item in items)
    members = (_decode_member(node, item) for item, node in named if node is not None)
    return [member for member in members if member is not None]


def estimate_nodes(samples: Sequence[DensitySample]) -> float:
    """Nodes on the ring, from arcs that do not overlap. 0.0 without a step.

    Names hash evenly, so the length of m steps is a sum of m exponential gaps of mean 1/n. (m - 1) / length has the
    mean n exactly and the standard error n / sqrt(m - 2).
    """
    steps, length = sum(s.steps for s in samples), sum(s.length for s in samples)
    return (steps - 1) * keys.RING_SIZE / length if steps > 1 and length else float(steps)


class RingSizeEstimator:
    """The number of nodes: counted while an arc covers the whole ring, estimated beyond.

    The own arc counts once, however often it is read, and each arc at a random position is another sample. The first
    random arc is none, because in a cluster that starts all at once most nodes are still to come.
    """

    def __init__(self) -> None:
        self._own = DensitySample(0, 0)
        self._others: deque[DensitySample] = deque(maxlen=MAX_SAMPLES)
        self._first = True
        self._counted: int | None = None

    @property
    def nodes(self) -> float:
        """The number, with this node; 1.0 before the first arc."""
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
        self._own = DensitySample(len(own.members), own.length)
        self._first, first = False, self._first
        if not (other.covers_ring or first):
            self._others.append(DensitySample(len(other.members), other.length))


def _decode_member(node: str, item: StoredItem) -> RingMember | None:
    try:
        return RingMember(node, decode_record(RingEntry, item.value), item.mod_revision)
    except BadRecord:
        return None
