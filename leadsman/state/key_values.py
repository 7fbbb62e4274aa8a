"""What goes into a key-value store and what comes out: items, ranges, writes, changes. Plain data, no store."""

from msgspec import Struct


class StoredItem(Struct, frozen=True):
    key: str
    value: bytes
    mod_revision: int


class Listing(Struct, frozen=True):
    """Items at one revision, in key order. `cluster` changes when the store is another one."""

    items: tuple[StoredItem, ...]
    revision: int
    cluster_id: str


class KeyRange(Struct, frozen=True):
    """The first `limit` items, in key order, with start <= key < end."""

    start: str
    end: str
    limit: int

    @classmethod
    def single_key(cls, key: str) -> "KeyRange":
        """Of this key alone."""
        return cls(key, key + "\0", 1)


class Put(Struct, frozen=True):
    key: str
    value: bytes


class Delete(Struct, frozen=True):
    key: str


Write = Put | Delete


class Updated(Struct, frozen=True):
    key: str
    value: bytes
    mod_revision: int


class Deleted(Struct, frozen=True):
    key: str
    mod_revision: int


class ChangeBatch(Struct, frozen=True):
    """Changes in revision order. None: the store answered and had nothing new. A watch from `resume_revision`
    on misses nothing that came after this batch.

    backlog: the changes were made before the watch began, nobody knows how long ago.
    """

    changes: tuple[Updated | Deleted, ...]
    resume_revision: int
    backlog: bool = False


class Precondition(Struct, frozen=True):
    """Write only if `key` holds exactly `value`; None: only if there is no such key."""

    key: str
    value: bytes | None
