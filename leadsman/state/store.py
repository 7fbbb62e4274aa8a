"""The store: what may be asked of it, and how it can fail.

Errors are named by what the caller can do:

    StoreError
    ├── Unavailable      not reached, no answer in time, no leader        try again, with full jitter; a write may
    │                                                                     have been done
    ├── OutOfSpace       etcd's NOSPACE alarm                             slow down; an operator must make room
    ├── Denied           credentials or role refused                      an operator must fix them
    ├── Compacted        the revision asked for is gone, or the store     list again
    │                    is another one or has gone back in time
    ├── LeaseLost        the lease has run out                            grant a new one, write everything again
    └── PreconditionFailed      somebody else wrote first                        step back
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from leadsman.state.key_values import ChangeBatch, KeyRange, Listing, Precondition, Write

LARGEST_TRANSACTION_OPS = 128
"""etcd's own default limit, --max-txn-ops."""


class StoreError(Exception):
    pass


class Unavailable(StoreError):
    pass


class OutOfSpace(StoreError):
    pass


class Denied(StoreError):
    pass


class Compacted(StoreError):
    pass


class LeaseLost(StoreError):
    pass


class PreconditionFailed(StoreError):
    pass


class Store(Protocol):
    """Every call may raise Unavailable, OutOfSpace or Denied, and answers or fails within the store's call timeout."""

    async def read_prefix(self, prefix: str) -> Listing:
        """Everything under `prefix` at one revision, however many pages it takes. Compacted when it took too long."""

    async def read_ranges(self, ranges: Sequence[KeyRange]) -> tuple[Listing, ...]:
        """A listing for each range, in one call and at one revision. ValueError for more than 128."""

    def watch(self, prefix: str, start_revision: int, cluster: str = "") -> AsyncGenerator[ChangeBatch]:
        """Changes from `start_revision` on, until it raises: Compacted, or Unavailable when the line is lost.

        cluster: of the listing that the watch continues; "": any. Close it (`contextlib.aclosing`) when done.
        """

    async def write(self, writes: Sequence[Write], lease: int = 0, guard: Precondition | None = None) -> int:
        """The revision after. Puts live under `lease` (0: kept). At most 128 writes are one transaction, more
        are several in order, each under the guard. LeaseLost, PreconditionFailed. ValueError for a key twice."""

    async def grant(self, ttl_seconds: int) -> int:
        """A lease."""

    async def keep_alive(self, lease: int) -> None:
        """Starts the lease's time anew. LeaseLost."""

    async def revoke(self, lease: int) -> None:
        """Ends the lease and deletes what lives under it. No error when it had ended already."""

    async def close(self) -> None: ...
