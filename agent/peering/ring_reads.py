"""Reads the ring from the store: one call, and one more for each arc that wraps past the ring's end."""

from agent.peering import ring
from agent.peering.peer_selection import RANDOM_ARC_SIZE, RingQuery, RingReadResult
from agent.peering.ring import Arc, RingMember
from leadsman.state import keys
from leadsman.state.key_values import KeyRange, Listing
from leadsman.state.records import RingEntry
from leadsman.state.store import Store


async def read_ring(store: Store, query: RingQuery) -> RingReadResult:
    """Reads both arcs and the entries that the query names. StoreError as the store raised it."""
    arcs = ((query.own_start, query.size), (query.random_start, RANDOM_ARC_SIZE))
    points = [KeyRange.single_key(keys.record_key(name, RingEntry)) for name in query.nodes]
    listings = await store.read_ranges([*(ring.range_to_end(*arc) for arc in arcs), *points])
    own = await _arc(store, *arcs[0], listings[0])
    other = await _arc(store, *arcs[1], listings[1])
    return RingReadResult(
        own, other, tuple(ring.decode_members(item for listing in listings[2:] for item in listing.items))
    )


async def read_entry(store: Store, name: str) -> RingMember | None:
    """The node's entry; None when there is no such node now."""
    (listing,) = await store.read_ranges([KeyRange.single_key(keys.record_key(name, RingEntry))])
    return next(iter(ring.decode_members(listing.items)), None)


async def _arc(store: Store, start: int, count: int, first: Listing) -> Arc:
    """first: the part of the arc up to the ring's end."""
    items, missing = first.items, count - len(first.items)
    if missing:
        (rest,) = await store.read_ranges([ring.range_from_start(start, missing)])
        items += rest.items
    return Arc(start % keys.RING_SIZE, tuple(ring.decode_members(items)), len(items) < count)
