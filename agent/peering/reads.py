"""From what is wanted to what the store has: one call, and one more for each arc that comes round the ring's end."""

from agent.peering import ring
from agent.peering.neighbourhood import ARC, Found, Wanted
from agent.peering.ring import Arc, Member
from clusterstate import keys
from clusterstate.records import RingEntry
from clusterstate.store import Listing, Range, Store


async def read(store: Store, wanted: Wanted) -> Found:
    """StoreErrors as they come."""
    arcs = ((wanted.own, wanted.size), (wanted.other, ARC))
    points = [Range.one(keys.key(name, RingEntry)) for name in wanted.names]
    listings = await store.read_ranges([*(ring.to_the_end(*arc) for arc in arcs), *points])
    own = await _arc(store, *arcs[0], listings[0])
    other = await _arc(store, *arcs[1], listings[1])
    return Found(own, other, tuple(ring.members(item for listing in listings[2:] for item in listing.items)))


async def entry(store: Store, name: str) -> Member | None:
    """None: no such node now."""
    (listing,) = await store.read_ranges([Range.one(keys.key(name, RingEntry))])
    return next(iter(ring.members(listing.items)), None)


async def _arc(store: Store, start: int, count: int, first: Listing) -> Arc:
    """first: what there is of the arc up to the ring's end."""
    items, lack = first.items, count - len(first.items)
    if lack:
        (rest,) = await store.read_ranges([ring.from_the_beginning(start, lack)])
        items += rest.items
    return Arc(start % keys.PLACES, tuple(ring.members(items)), len(items) < count)
