"""Counts the calls to a store, and the bytes of keys and values."""

from collections.abc import AsyncGenerator, Iterable, Sequence

from leadsman.state.key_values import ChangeBatch, KeyRange, Listing, Precondition, Put, StoredItem, Write
from leadsman.state.store import Store


class CountingStore:
    """A leadsman.state.store.Store over another one. A deletion counts the bytes of its key."""

    def __init__(self, store: Store) -> None:
        self.calls = self.read_bytes = self.written_bytes = 0
        self._store = store

    async def read_prefix(self, prefix: str) -> Listing:
        listing = await self._store.read_prefix(prefix)
        self._read(listing.items)
        return listing

    async def read_page(self, keys: KeyRange, revision: int = 0) -> Listing:
        page = await self._store.read_page(keys, revision)
        self._read(page.items)
        return page

    async def read_ranges(self, ranges: Sequence[KeyRange]) -> tuple[Listing, ...]:
        listings = await self._store.read_ranges(ranges)
        self._read(item for listing in listings for item in listing.items)
        return listings

    def watch(self, prefix: str, start_revision: int, cluster_id: str = "") -> AsyncGenerator[ChangeBatch]:
        return self._store.watch(prefix, start_revision, cluster_id)

    async def write(self, writes: Sequence[Write], lease: int = 0, precondition: Precondition | None = None) -> int:
        self.calls += 1
        self.written_bytes += sum(len(one.key) + (len(one.value) if isinstance(one, Put) else 0) for one in writes)
        return await self._store.write(writes, lease, precondition)

    async def grant(self, ttl_seconds: int) -> int:
        self.calls += 1
        return await self._store.grant(ttl_seconds)

    async def keep_alive(self, lease: int) -> None:
        self.calls += 1
        await self._store.keep_alive(lease)

    async def revoke(self, lease: int) -> None:
        self.calls += 1
        await self._store.revoke(lease)

    async def close(self) -> None:
        await self._store.close()

    def _read(self, items: Iterable[StoredItem]) -> None:
        self.calls += 1
        self.read_bytes += sum(len(item.key) + len(item.value) for item in items)
