"""Claims a node, so that one agent alone writes its records.

The identity is written only where there is none, or this agent's own from before, in one transaction. Every later write
is guarded by that very value. The epoch is the store's revision before the claim: a later claim has a larger one,
without any clock.
"""

from msgspec import Struct, structs

from leadsman.state import codec, keys
from leadsman.state.codec import BadRecord
from leadsman.state.key_values import Precondition, Put
from leadsman.state.records import Identity, RingEntry
from leadsman.state.store import PreconditionFailed, Store


class NodeAlreadyOwned(Exception):
    """Another agent owns the node's records. End this process: one agent a node."""


class NodeOwnership(Struct, frozen=True):
    """What a write needs: the lease that the records live under, and the guard that proves the ownership."""

    identity: Identity
    lease: int
    lease_seconds: int
    guard: Precondition


async def claim_node(
    store: Store, node: str, identity: Identity, lease_seconds: int, entry: RingEntry | None = None
) -> NodeOwnership:
    """Claims the node under a new lease. NodeAlreadyOwned when another owner has it; StoreError as the store raised it.

    identity: without its epoch, which is set here.
    entry: written to the ring in the same transaction; None when the ring is not used.
    """
    key = keys.record_key(node, Identity)
    listing = await store.read_prefix(key)
    stored = next((item.value for item in listing.items if item.key == key), None)
    if stored is not None and _owner(stored) != identity.owner:
        raise NodeAlreadyOwned(
            f"another agent (owner {_owner(stored)}) owns the records of node {node}; "
            f"this agent is {identity.owner}: run one agent per node"
        )
    identity = structs.replace(identity, epoch=listing.revision)
    lease = await store.grant(lease_seconds)
    try:
        ring_puts = [Put(keys.record_key(node, RingEntry), codec.encode(entry))] if entry else []
        await store.write([Put(key, codec.encode(identity)), *ring_puts], lease, Precondition(key, stored))
    except PreconditionFailed as error:
        await store.revoke(lease)
        raise NodeAlreadyOwned(f"another agent claimed node {node} at the same moment") from error
    return NodeOwnership(identity, lease, lease_seconds, Precondition(key, codec.encode(identity)))


def _owner(value: bytes) -> str:
    """The owner in an identity. One that cannot be decoded is somebody else's."""
    try:
        return codec.decode(Identity, value).owner
    except BadRecord as error:
        return f"unknown ({error})"
