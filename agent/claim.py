"""The claim: one agent writes one node's records, and the loser steps back.

The identity is written only where there is none or where it is our own from before, in one transaction; every
later write is guarded by that very value. The epoch is the store's revision before the claim: whoever claims
later has a larger one, without any clock.
"""

from msgspec import Struct

from clusterstate import codec, keys
from clusterstate.codec import BadRecord
from clusterstate.records import Identity, RingEntry
from clusterstate.store import Guard, GuardFailed, Put, Store


class Taken(Exception):
    """Another agent holds the node."""


class Claim(Struct, frozen=True):
    """What a report needs to write: the lease it lives under and the guard that proves it is still ours."""

    identity: Identity
    lease: int
    lease_seconds: int
    guard: Guard


async def claim(store: Store, node: str, wanted: Identity, lease_seconds: int, entry: RingEntry | None = None) -> Claim:
    """Takes the node under a new lease. Taken when another owner has it. StoreErrors as they come.

    entry: takes the node's place on the ring with it; None: the ring is not used.
    """
    key = keys.key(node, Identity)
    listing = await store.read_prefix(key)
    held = next((item.value for item in listing.items if item.key == key), None)
    if held is not None and _owner(held) != wanted.owner:
        raise Taken(f"node {node} is written by agent {_owner(held)}, and this is {wanted.owner}")
    identity = Identity(wanted.owner, listing.revision, wanted.address, wanted.zone, wanted.rack)
    lease = await store.grant(lease_seconds)
    try:
        places = [Put(keys.key(node, RingEntry), codec.encode(entry))] if entry else []
        await store.write([Put(key, codec.encode(identity)), *places], lease, Guard(key, held))
    except GuardFailed as error:
        await store.revoke(lease)
        raise Taken(f"another agent claimed node {node} at the same moment") from error
    return Claim(identity, lease, lease_seconds, Guard(key, codec.encode(identity)))


def _owner(value: bytes) -> str:
    """An identity that nobody can read still has an owner: not us."""
    try:
        return codec.decode(Identity, value).owner
    except BadRecord as error:
        return f"unknown ({error})"
