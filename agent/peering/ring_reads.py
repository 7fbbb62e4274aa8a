"""From what is wanted to what the store has: one call, and one more for each arc that comes round the ring's end."""

from agent.peering import ring
from agent.peering.peer_selection import RANDOM_ARC_SIZE, RingQuery, RingReadResult
from agent.peering.ring import Arc, RingMember
from leadsman.state import keys
from leadsman.state.key_values import KeyRange, Listing
from leadsman.state.records import RingEntry
from leadsman.state.store import Store


async def read_ring(store: Store, wanted: RingQuery) -> RingReadResult:
    """StoreErrors as they come."""
    arcs = ((wanted.own_start, wanted.size), (wanted.random_start, RANDOM_ARC_SIZE))
    points = [KeyRange.single_key(keys.record_key(name, RingEntry)) for name in wanted.nodes]
    listings = await store.read_ranges([*(ring.range_to_end(*arc) for arc in arcs), *points])
    own = await _arc(store, *arcs[0], listings[0])
    other = await _arc(store, *arcs[1], listings[1])
    return RingReadResult(
        own, other, tuple(ring.decode_members(item for listing in listings[2:] for item in listing.items))
    )


async def read_entry(store: Store, name: str) -> RingMember | None:
    """None: no such node now."""
    (listing,) = await store.read_ranges([KeyRange.single_key(keys.record_key(name, RingEntry))])
    return next(iter(ring.decode_members(listing.items)), None)


async def _arc(store: Store, start: int, count: int, first: Listing) -> Arc:
    """first: what there is of the arc up to the ring's end."""
    items, lack = first.items, count - len(first.items)
    if lack:
        (rest,) = await store.read_ranges([ring.range_from_start(start, lack)])
        items += rest.items
    return Arc(start % keys.RING_SIZE, tuple(ring.decode_members(items)), len(items) < count)
