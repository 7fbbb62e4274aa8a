"""Keeps a Snapshot current: lists, watches from there on, and lists again when the watch cannot be resumed."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing

from leadsman.runtime.backoff import Backoff
from leadsman.runtime.problem_log import ProblemLog
from leadsman.state import keys
from leadsman.state.etcd_json import prefix_end
from leadsman.state.snapshot import NodeLimits, Snapshot
from leadsman.state.snapshot_updates import DEFAULT_LIMITS, ListedSnapshot, apply_changes
from leadsman.state.store import (
    PAGE_KEYS,
    ChangeBatch,
    Compacted,
    Deleted,
    KeyRange,
    Listing,
    Store,
    StoreError,
    Updated,
)


async def node_pages(store: Store, prefix: str) -> AsyncGenerator[Listing]:
    """Lists the records under `prefix` page by page, all at the revision of the first. Raises StoreErrors; Compacted
    when it takes too long. Close it (`contextlib.aclosing`).

    The store reads the next page while the caller works on this one.
    """
    end = prefix_end(prefix.encode()).decode()
    next_page = asyncio.create_task(store.read_page(KeyRange(prefix, end, PAGE_KEYS)))
    try:
        while True:
            page = await next_page
            if page.more:
                rest = KeyRange(f"{page.items[-1].key}\0", end, PAGE_KEYS)
                next_page = asyncio.create_task(store.read_page(rest, page.revision))
            yield page
            if not page.more:
                return
    finally:
        next_page.cancel()
        await asyncio.gather(next_page, return_exceptions=True)


LONGEST_PAUSE_SECONDS = 4.0
"""The longest pause between two attempts: with 3 s for a call that hangs and 1 s to list 5,000 nodes, the snapshot is
current 10 s after etcd is back."""

RESUME_WITHIN_SECONDS = 60.0
"""A watch that was lost for longer begins with a listing: a wiped store may have passed our revision by then."""

RELIST_DROPPED_SECONDS = 300.0
"""While records are dropped, the store is listed again this often: what was dropped may have room by now."""

REPORTED_INTERVALS = 1.5
"""Push intervals within which an agent reports again: 1.1 at most, and the call."""

SLICE_CHANGES = 250
"""Applied without a turn for others on the event loop, some 2 ms; a transaction is never split."""

_FIRST_PAUSE_SECONDS = 0.2

log = logging.getLogger(__name__)


class Follower:
    """Follows the store. `run` it as one task; readers take `current`, which is replaced and never altered.

    store: None: there is nothing to follow.
    clock: monotonic seconds, the one of readers' freshness.
    loaded: set after the first listing.
    problem: why the store is not followed now.
    relists, reconnects: listings, and watches opened again.
    """

    def __init__(
        self,
        store: Store | None,
        prefix: str = keys.NODES_PREFIX,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        limits: NodeLimits = DEFAULT_LIMITS,
    ):
        self.current = Snapshot()
        self.loaded = asyncio.Event()
        self.relists, self.reconnects = 0, 0
        self.problem = ProblemLog(
            log, "cannot watch etcd; the last snapshot stays in use until etcd answers", "etcd is watched again"
        )
        self._store, self._prefix, self._clock, self._limits = store, prefix, clock, limits
        self._backoff = Backoff(_FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, rng or random.Random())
        self._resume: int | None = None
        self._last_response_at = self._listed_at = float("-inf")
        self._began_at = float("inf")

    def age_seconds(self, now: float) -> float:
        """Returns the time since the store last answered with changes, progress or a listing. Infinite before the
        first."""
        return now - self._last_response_at

    def unconfirmed(self, now: float) -> int:
        """Counts the nodes whose next report is due since the last listing: what that shows may be of any age. One that
        is late is no longer waited for."""
        since = now - self._listed_at
        beats = (each.heartbeat for each in self.current.nodes.values() if each.changed_at is None)
        return sum(beat is not None and since < REPORTED_INTERVALS * beat.push_interval_seconds for beat in beats)

    async def run(self) -> None:
        """Follows until cancelled. A StoreError is logged and retried, anything else is raised."""
        while self._store is not None:
            try:
                await self._follow(self._store)
            except StoreError as error:
                self._lost(error)
            await asyncio.sleep(self._backoff.next_seconds())
            self.reconnects += 1

    async def _follow(self, store: Store) -> None:
        resume = self._resume
        if resume is None or self.age_seconds(self._clock()) > RESUME_WITHIN_SECONDS:
            resume = await self._list(store)
        self._began_at = self._clock()
        async with aclosing(store.watch(self._prefix, resume, self.current.cluster_id)) as batches:
            async for batch in batches:
                await self._apply(batch)
                if self._dropped_for_long():
                    self._resume = None
                    return

    async def _list(self, store: Store) -> int:
        """Replaces the snapshot. A page is decoded while etcd reads the next one, in slices with turns for others."""
        listed = ListedSnapshot(self._limits)
        async with aclosing(node_pages(store, self._prefix)) as pages:
            async for page in pages:
                for begin in range(0, len(page.items), SLICE_CHANGES):
                    listed.take(page.items[begin : begin + SLICE_CHANGES])
                    await asyncio.sleep(0)
                revision, cluster_id = page.revision, page.cluster_id
        seen_at = self._clock()
        self.current = await asyncio.to_thread(listed.finished, self.current, revision, cluster_id, seen_at)
        self.relists, self._listed_at = self.relists + 1, seen_at
        self._record_response(revision + 1)
        self.loaded.set()
        return revision + 1

    async def _apply(self, batch: ChangeBatch) -> None:
        now = self._clock()
        for changes in slices_by_revision(batch.changes, SLICE_CHANGES):
            self.current = apply_changes(self.current, changes, None if batch.backlog else now, now, self._limits)
            await asyncio.sleep(0)  # Also after the last: the next batch may have arrived, and would not wait for it.
        self._record_response(batch.resume_revision)

    def _dropped_for_long(self) -> bool:
        listed_long_ago = self._clock() - self._listed_at > RELIST_DROPPED_SECONDS
        return listed_long_ago and (self.current.crowded_nodes > 0 or keys.NODES_PREFIX in self.current.problems)

    def _record_response(self, resume: int) -> None:
        self._resume, self._last_response_at = resume, self._clock()
        if self.problem.text:
            self.problem.clear()

    def _lost(self, error: StoreError) -> None:
        """Reports the error. A watch that failed soon after it began is no recovery: the pauses grow."""
        if self._clock() - self._began_at > LONGEST_PAUSE_SECONDS:
            self._backoff.reset()
        self._began_at = float("inf")
        if isinstance(error, Compacted):
            self._resume = None
        self.problem.report(error)


def slices_by_revision(changes: Sequence[Updated | Deleted], size: int) -> Iterator[Sequence[Updated | Deleted]]:
    """Yields the changes in slices of `size`, each made longer so that it ends with a whole transaction."""
    start = 0
    while start < len(changes):
        end = min(start + size, len(changes))
        while end < len(changes) and changes[end].mod_revision == changes[end - 1].mod_revision:
            end += 1
        yield changes[start:end]
        start = end
