"""Claims a node, so that one agent alone writes its records.

The identity is written where there is none, where it is this agent's own from before, or where no lease stands behind
it, in one transaction. Every later write is guarded by that very value. Agents write their identity only under a lease:
one without a lease is forged or a mistake, and would keep the node's agent out until somebody deletes it. The epoch is
the store's revision before the claim: a later claim has a larger one, without any clock.
"""

import logging

from msgspec import Struct, structs

from leadsman.state import keys
from leadsman.state.records import BadRecord, Identity, RingEntry, decode_record, encode_record
from leadsman.state.store import KeyRange, Precondition, PreconditionFailed, Put, Store, StoredItem

log = logging.getLogger(__name__)


class NodeAlreadyOwned(Exception):
    """Another agent owns the node's records, under a lease that lives. End this process: one agent a node."""


class NodeOwnership(Struct, frozen=True):
    """A node's claim: the lease that its records live under, and the guard that each write of them needs."""

    identity: Identity
    lease: int
    lease_seconds: int
    guard: Precondition


async def claim_node(
    store: Store, node: str, identity: Identity, lease_seconds: int, entry: RingEntry | None = None
) -> NodeOwnership:
    """Claims the node under a new lease. Raises NodeAlreadyOwned when another's lease has it; raises StoreError as
    raised.

    identity: without its epoch, which is set here.
    entry: written to the ring in the same transaction; None when the ring is not used.
    """
    key = keys.record_key(node, Identity)
    (listing,) = await store.read_ranges([KeyRange.single_key(key)])
    stored = next(iter(listing.items), None)
    if stored is not None:
        _check_free(stored, node, identity.owner)
    identity = structs.replace(identity, epoch=listing.revision)
    lease = await store.grant(lease_seconds)
    try:
        ring_puts = [Put(keys.record_key(node, RingEntry), encode_record(entry))] if entry else []
        await store.write(
            [Put(key, encode_record(identity)), *ring_puts], lease, Precondition(key, stored.value if stored else None)
        )
    except PreconditionFailed as error:
        await store.revoke(lease)
        raise NodeAlreadyOwned(f"another agent claimed node {node} at the same moment") from error
    return NodeOwnership(identity, lease, lease_seconds, Precondition(key, encode_record(identity)))


def _check_free(stored: StoredItem, node: str, owner: str) -> None:
    """Raises NodeAlreadyOwned unless the stored identity is this owner's or has no lease."""
    holder = _owner(stored.value)
    if stored.lease and holder != owner:
        raise NodeAlreadyOwned(
            f"another agent (owner {holder}) owns the records of node {node}; this agent is {owner}: run one agent per "
            f"node. If no such agent runs, end its lease: etcdctl lease revoke {stored.lease:x}"
        )
    if not stored.lease:
        log.warning(
            "agent (owner %s) takes over the records of node %s from owner %s: no lease stands behind %s",
            *(owner, node, holder, stored.key),
        )


def _owner(value: bytes) -> str:
    """Returns the owner in an identity. One that cannot be decoded is somebody else's."""
    try:
        return decode_record(Identity, value).owner
    except BadRecord as error:
        return f"unknown ({error})"
