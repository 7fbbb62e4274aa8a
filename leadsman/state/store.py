"""The interface of the store, what it takes and returns, and its errors.

Errors are named by what the caller can do:

    StoreError
    ├── Unavailable         not reached, no response in time, no leader      try again, with full jitter; a write may
    │   │                                                                    have been done
    │   └── Unreachable     no connection was taken                          the same; nothing was done
    ├── OutOfSpace          etcd's NOSPACE alarm                             slow down; an operator must make room
    ├── Denied              credentials or role refused                      an operator must fix them
    ├── Compacted           the revision is gone, or the store was           list again
    │                       replaced or has gone back in time
    ├── LeaseLost           the lease has expired                            grant a new one, write everything again
    └── PreconditionFailed  another writer changed the key, or it is gone    step back, or claim it again
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol, Self

from msgspec import Struct


class StoredItem(Struct, frozen=True):
    """Holds a key with its value.

    mod_revision: the store's revision that wrote it.
    lease: with whose end it is deleted; 0: none, it stays.
    """

    key: str
    value: bytes
    mod_revision: int
    lease: int = 0


class Listing(Struct, frozen=True):
    """Items at one revision, in key order.

    cluster_id: another one when the store was replaced.
    more: the range had items beyond its limit; only of a page.
    """

    items: tuple[StoredItem, ...]
    revision: int
    cluster_id: str
    more: bool = False


class KeyRange(Struct, frozen=True):
    """The first `limit` items, in key order, with start <= key < end."""

    start: str
    end: str
    limit: int

    @classmethod
    def single_key(cls, key: str) -> "KeyRange":
        """Returns the range of this key alone."""
        return cls(key, key + "\0", 1)


class Put(Struct, frozen=True):
    """Writes a value under a key."""

    key: str
    value: bytes


class Delete(Struct, frozen=True):
    """Deletes a key; no error when there is none."""

    key: str


Write = Put | Delete


class Updated(Struct, frozen=True):
    """A key was written."""

    key: str
    value: bytes
    mod_revision: int


class Deleted(Struct, frozen=True):
    """A key was deleted, or its lease ended."""

    key: str
    mod_revision: int


class ChangeBatch(Struct, frozen=True):
    """Changes in revision order; () is progress: the store answered and had nothing new.

    resume_revision: a watch from here on misses nothing that came after this batch.
    backlog: the changes were made before the watch began, at an unknown time.
    """

    changes: tuple[Updated | Deleted, ...]
    resume_revision: int
    backlog: bool = False


class Precondition(Struct, frozen=True):
    """A condition of a write: `key` holds exactly `value`; None: there is no such key."""

    key: str
    value: bytes | None


PAGE_KEYS = 2000
"""A listing reads this many keys a page. With values of 4 KiB a page is at most 11 MB of JSON. etcd counts all keys of
the range for each page: 70,000 keys in pages of 500 take it half as long again."""

LARGEST_TRANSACTION_OPS = 128
"""etcd's own default limit, --max-txn-ops."""


class StoreError(Exception):
    """A call to the store failed."""


class Unavailable(StoreError):
    """The store was not reached or did not respond in time. A write may have been done."""


class Unreachable(Unavailable):
    """The store took no connection, so nothing was done."""


class OutOfSpace(StoreError):
    """The store is full."""


class Denied(StoreError):
    """The store refused our credentials or our role."""


class Compacted(StoreError):
    """Changes from this revision on cannot be had."""


class LeaseLost(StoreError):
    """The lease has expired, and with it all that was written under it."""


class PreconditionFailed(StoreError):
    """Another writer changed the key that the write depends on, or it is gone. Nothing was written."""

    @classmethod
    def of(cls, preconditions: Sequence[Precondition], found: Sequence[bytes | None]) -> Self:
        """Makes the error for the first of the preconditions that does not hold. found: what the store has under the
        key of each."""
        failed = ((each.key, value) for each, value in zip(preconditions, found, strict=False) if value != each.value)
        key, value = next(failed, ("", None))
        why = (
            "was changed by another writer, or etcd was restored from a backup; it is claimed again"
            if value is not None
            else "is gone: its lease expired, or etcd lost its data; it is claimed again"
        )
        return cls(f"precondition failed: {key} {why}")


class Store(Protocol):
    """A key-value store with revisions, watches and leases: etcd, or memory in tests.

    Every call may raise Unavailable, OutOfSpace or Denied, and returns or fails within the store's call timeout.
    """

    async def read_prefix(self, prefix: str) -> Listing:
        """Returns all items under `prefix` at one revision, in as many pages as it takes. Raises Compacted when it
        takes too long."""

    async def read_page(self, keys: KeyRange, revision: int = 0) -> Listing:
        """Returns the first items of the range as of `revision`, fewer than its limit when they are large; `more` says
        if some are left. revision: 0: the newest. Raises Compacted."""

    async def read_ranges(self, ranges: Sequence[KeyRange]) -> tuple[Listing, ...]:
        """Returns a listing for each range, in one call and at one revision. Raises ValueError for more than 128."""

    def watch(self, prefix: str, start_revision: int, cluster_id: str = "") -> AsyncGenerator[ChangeBatch]:
        """Yields the changes from `start_revision` on, until it raises Compacted, or Unavailable when the connection is
        lost.

        cluster_id: of the listing that the watch continues; "": any. Close it (`contextlib.aclosing`) when done.
        """

    async def write(self, writes: Sequence[Write], lease: int = 0, *preconditions: Precondition) -> int:
        """Writes, and returns the revision afterwards.

        lease: that of the puts; 0: none, they stay. At most 128 writes are one transaction; more are several in order,
        each under the preconditions. Raises LeaseLost, PreconditionFailed, and ValueError for duplicate keys.
        """

    async def grant(self, ttl_seconds: int) -> int:
        """Returns a new lease that expires after `ttl_seconds` unless it is kept alive."""

    async def keep_alive(self, lease: int) -> None:
        """Renews the lease for its whole time. Raises LeaseLost."""

    async def revoke(self, lease: int) -> None:
        """Ends the lease and deletes what was written under it. No error when it has ended already."""

    async def close(self) -> None:
        """Closes the connections."""
