"""The claim: one agent writes one node's records, and the loser steps back.

The identity is written only where there is none or where it is our own from before, in one transaction; every
later write is guarded by that very value. The epoch is the store's revision before the claim: whoever claims
later has a larger one, without any clock.
"""

from msgspec import Struct

from leadsman.state import codec, keys
from leadsman.state.codec import BadRecord
from leadsman.state.key_values import Precondition, Put
from leadsman.state.records import Identity, RingEntry
from leadsman.state.store import PreconditionFailed, Store


class NodeAlreadyOwned(Exception):
    """Another agent holds the node."""


class NodeOwnership(Struct, frozen=True):
    """What a report needs to write: the lease it lives under and the guard that proves it is still ours."""

    identity: Identity
    lease: int
    lease_seconds: int
    guard: Precondition


async def claim_node(
    store: Store, node: str, wanted: Identity, lease_seconds: int, entry: RingEntry | None = None
) -> NodeOwnership:
    """Takes the node under a new lease. Taken when another owner has it. StoreErrors as they come.

    entry: takes the node's place on the ring with it; None: the ring is not used.
    """
    key = keys.record_key(node, Identity)
    listing = await store.read_prefix(key)
    held = next((item.value for item in listing.items if item.key == key), None)
    if held is not None and _owner(held) != wanted.owner:
        raise NodeAlreadyOwned(f"node {node} is written by agent {_owner(held)}, and this is {wanted.owner}")
    identity = Identity(wanted.owner, listing.revision, wanted.address, wanted.zone, wanted.rack)
    lease = await store.grant(lease_seconds)
    try:
        places = [Put(keys.record_key(node, RingEntry), codec.encode(entry))] if entry else []
        await store.write([Put(key, codec.encode(identity)), *places], lease, Precondition(key, held))
    except PreconditionFailed as error:
        await store.revoke(lease)
        raise NodeAlreadyOwned(f"another agent claimed node {node} at the same moment") from error
    return NodeOwnership(identity, lease, lease_seconds, Precondition(key, codec.encode(identity)))


def _owner(value: bytes) -> str:
    """An identity that nobody can read still has an owner: not us."""
    try:
        return codec.decode(Identity, value).owner
    except BadRecord as error:
        return f"unknown ({error})"
