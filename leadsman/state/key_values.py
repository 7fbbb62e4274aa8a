"""Plain data that a key-value store takes and returns: items, ranges, writes and changes."""

from collections.abc import Iterator, Sequence

from msgspec import Struct


class StoredItem(Struct, frozen=True):
    """A key with its value.

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
        """The range of this key alone."""
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


def slices_by_revision(changes: Sequence[Updated | Deleted], size: int) -> Iterator[Sequence[Updated | Deleted]]:
    """The changes in slices of `size`, each made longer so that it ends with a whole transaction."""
    start = 0
    while start < len(changes):
        end = min(start + size, len(changes))
        while end < len(changes) and changes[end].mod_revision == changes[end - 1].mod_revision:
            end += 1
        yield changes[start:end]
        start = end


class Precondition(Struct, frozen=True):
    """A condition of a write: `key` holds exactly `value`; None: there is no such key."""

    key: str
    value: bytes | None
