"""The store in memory. The contract tests hold it to what etcd does.

Leases expire by the given clock, when the store is next used or `expire` is called.
"""

import asyncio
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from itertools import count, islice, takewhile
from typing import Any

from msgspec import Struct

from leadsman.state import store

PROGRESS_INTERVAL_SECONDS = 5.0
"""An idle watch yields progress this often."""

MAX_RETAINED_CHANGES = 20_000
"""Changes kept for watches to begin at; when there are more, the older half is compacted."""

_clusters = count(1)


class MemoryLease(Struct):
    """A lease. expires_at: monotonic seconds."""

    ttl_seconds: int
    expires_at: float


class MemoryStore:
    """leadsman.state.store.Store. clock: monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._failure: store.StoreError | None = None
        self._none_ends_before: float = 0.0
        self._changed = asyncio.Event()
        self._lease_ids = count(1)
        self._begin()

    async def read_prefix(self, prefix: str) -> store.Listing:
        self._check_available()
        return self._listing(takewhile(lambda key: key.startswith(prefix), self._from(prefix)))

    async def read_page(self, keys: store.KeyRange, revision: int = 0) -> store.Listing:
        if revision not in (0, self.revision):
            raise store.Compacted(f"revision {revision} is gone; the newest is {self.revision}")
        (page,) = await self.read_ranges([store.KeyRange(keys.start, keys.end, keys.limit + 1)])
        return store.Listing(page.items[: keys.limit], page.revision, page.cluster_id, len(page.items) > keys.limit)

    async def read_ranges(self, ranges: Sequence[store.KeyRange]) -> tuple[store.Listing, ...]:
        self._check_available()
        if len(ranges) > store.LARGEST_TRANSACTION_OPS:
            raise ValueError(f"{len(ranges)} ranges in one call; at most {store.LARGEST_TRANSACTION_OPS} are allowed")
        return tuple(self._listing(islice(self._from(r.start, r.end), r.limit)) for r in ranges)

    async def watch(self, prefix: str, start_revision: int, cluster_id: str = "") -> AsyncGenerator[store.ChangeBatch]:
        self._check_available()
        began, watched_cluster, last_revision = self.revision, cluster_id or self.cluster_id, start_revision - 1
        yield self._progress(watched_cluster, last_revision)
        while True:
            changed, revision = self._changed, self.revision
            for batch in _by_age(self._since(last_revision, prefix), began):
                yield batch
            last_revision = revision
            if not await self._woken(changed):
                yield self._progress(watched_cluster, last_revision)
            self._check_available()
            self._check_history(watched_cluster, last_revision)

    async def write(self, writes: Sequence[store.Write], lease: int = 0, *preconditions: store.Precondition) -> int:
        self._check_available()
        if len({write.key for write in writes}) < len(writes):
            raise ValueError(f"duplicate keys in one write: {sorted(write.key for write in writes)}")
        for start in range(0, len(writes) or 1, store.LARGEST_TRANSACTION_OPS):
            self._commit(writes[start : start + store.LARGEST_TRANSACTION_OPS], lease, preconditions)
        return self.revision

    async def grant(self, ttl_seconds: int) -> int:
        self._check_available()
        lease = next(self._lease_ids)
        granted = self._leases[lease] = MemoryLease(ttl_seconds, self._clock() + ttl_seconds)
        self._none_ends_before = min(self._none_ends_before, granted.expires_at)
        return lease

    async def keep_alive(self, lease: int) -> None:
        self._check_available()
        granted = self._leases.get(lease)
        if granted is None:
            raise store.LeaseLost(f"lease {lease} has expired")
        granted.expires_at = self._clock() + granted.ttl_seconds

    async def revoke(self, lease: int) -> None:
        self._check_available()
        self._end(lease)

    async def close(self) -> None:
        """Does nothing: the items stay."""

    def expire(self) -> None:
        """Ends the leases that have expired by now, so that watches see it."""
        now = self._clock()
        if now < self._none_ends_before:
            return
        for lease in [lease for lease, granted in self._leases.items() if granted.expires_at <= now]:
            self._end(lease)
        self._none_ends_before = min((granted.expires_at for granted in self._leases.values()), default=float("inf"))

    def compact(self) -> None:
        """Forgets all changes so far, as `etcdctl compact` to the newest revision does."""
        self._compacted = self.revision
        self._log.clear()

    def fail(self, failure: store.StoreError) -> None:
        """Makes every call and watch raise `failure`, until `heal`."""
        self._failure = failure
        self._wake()

    def heal(self) -> None:
        """Ends `fail`."""
        self._failure = None

    def wipe(self) -> None:
        """Replaces the store by another, empty one; watches end."""
        self._begin()
        self._wake()

    def backup(self) -> dict[str, Any]:
        """Returns what `restore` takes."""
        return deepcopy({name: vars(self)[name] for name in ("revision", "_items", "_order", "_leases")})

    def restore(self, backup: dict[str, Any]) -> None:
        """Replaces the store by another one, with the data that it had; watches end."""
        self._begin()
        vars(self).update(deepcopy(backup))
        self._wake()

    def _begin(self) -> None:
        self.cluster_id, self.revision = str(next(_clusters)), 1
        self._compacted = 0
        self._items: dict[str, store.StoredItem] = {}
        self._order: list[str] = []
        self._leases: dict[int, MemoryLease] = {}
        self._none_ends_before = 0.0
        self._log: list[store.Updated | store.Deleted] = []

    def _check_available(self) -> None:
        if self._failure is not None:
            raise self._failure
        self.expire()

    def _progress(self, cluster_id: str, seen: int) -> store.ChangeBatch:
        self._check_available()
        self._check_history(cluster_id, seen)
        return store.ChangeBatch((), seen + 1)

    def _check_history(self, cluster_id: str, seen: int) -> None:
        if self.cluster_id != cluster_id:
            raise store.Compacted(f"cluster ID changed from {cluster_id} to {self.cluster_id}: the store was replaced")
        if self.revision < seen:
            raise store.Compacted(f"revision went back from {seen} to {self.revision}")
        if seen < self._compacted:
            raise store.Compacted(f"compacted up to revision {self._compacted}")

    def _from(self, start: str, end: str | None = None) -> Iterator[str]:
        first = bisect_left(self._order, start)
        last = len(self._order) if end is None else bisect_left(self._order, end, first)
        return (self._order[index] for index in range(first, last))

    def _listing(self, keys: Iterable[str]) -> store.Listing:
        return store.Listing(tuple(self._items[key] for key in keys), self.revision, self.cluster_id)

    def _since(self, seen: int, prefix: str) -> tuple[store.Updated | store.Deleted, ...]:
        first = bisect_right(self._log, seen, key=lambda change: change.mod_revision)
        return tuple(change for change in self._log[first:] if change.key.startswith(prefix))

    def _commit(
        self, writes: Sequence[store.Write], lease: int, preconditions: Sequence[store.Precondition] = ()
    ) -> None:
        found = [item.value if (item := self._items.get(each.key)) else None for each in preconditions]
        if found != [each.value for each in preconditions]:
            raise store.PreconditionFailed.of(preconditions, found)
        if lease and lease not in self._leases and any(isinstance(write, store.Put) for write in writes):
            raise store.LeaseLost(f"lease {lease} has expired")
        effective = [write for write in writes if isinstance(write, store.Put) or write.key in self._items]
        self.revision += bool(effective)
        for write in effective:
            self._apply_write(write, lease)
        self._trim()
        self._wake()

    def _apply_write(self, write: store.Write, lease: int) -> None:
        if isinstance(write, store.Delete):
            del self._items[write.key], self._order[bisect_left(self._order, write.key)]
            self._log.append(store.Deleted(write.key, self.revision))
            return
        if write.key not in self._items:
            insort(self._order, write.key)
        self._items[write.key] = store.StoredItem(write.key, write.value, self.revision, lease)
        self._log.append(store.Updated(write.key, write.value, self.revision))

    def _end(self, lease: int) -> None:
        if self._leases.pop(lease, None) is not None:
            self._commit([store.Delete(key) for key, item in self._items.items() if item.lease == lease], 0)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _trim(self) -> None:
        if len(self._log) > MAX_RETAINED_CHANGES:
            half = MAX_RETAINED_CHANGES // 2
            self._compacted = self._log[half - 1].mod_revision
            del self._log[:half]

    async def _woken(self, changed: asyncio.Event) -> bool:
        """False when nothing changed for PROGRESS_INTERVAL_SECONDS or until a lease may have expired."""
        left = (granted.expires_at - self._clock() for granted in self._leases.values())
        try:
            async with asyncio.timeout(max(0.01, min((PROGRESS_INTERVAL_SECONDS, *left)))):
                return await changed.wait()
        except TimeoutError:
            return False


def _by_age(changes: tuple[store.Updated | store.Deleted, ...], began: int) -> list[store.ChangeBatch]:
    backlog = tuple(c for c in changes if c.mod_revision <= began)
    parts = ((backlog, True), (changes[len(backlog) :], False))
    return [store.ChangeBatch(part, part[-1].mod_revision + 1, old) for part, old in parts if part]
