"""Binds to this node that failed, as the extender tells them: pods that never came here.

Each is counted once: the key goes in the transaction that keeps the reward it changed.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from random import Random

from agent.pods.book import Book
from clusterstate import codec, keys
from clusterstate.codec import BadRecord
from clusterstate.records import BindFailure
from clusterstate.store import Item, Store, StoreError
from rewards.causes import Cause

log = logging.getLogger(__name__)

LOOK_SECONDS = 30.0
"""The extender keeps them for 300 s. One bounded read a node: 5,000 nodes ask etcd 170 times a second."""
MOST = 32
"""Counted between two writes; the others wait their turn."""


class Binds:
    """failures: of reads."""

    def __init__(self, store: Store, node: str, rng: Random | None = None) -> None:
        self._store, self._prefix, self._rng = store, keys.binds(node), rng or Random()
        self.failures = 0

    async def run(self, book: Callable[[], Book]) -> None:
        """For ever. StoreErrors are survived: what was told is read the next time."""
        while True:
            await asyncio.sleep(LOOK_SECONDS * self._rng.uniform(0.9, 1.1))
            try:
                await self.look(book())
            except StoreError as error:
                self.failures += 1
                log.debug("binds that failed cannot be read: %s", error)

    async def look(self, book: Book) -> None:
        """Counts what is new, and forgets what is gone from the store."""
        items = (await self._store.read_prefix(self._prefix)).items
        there = {item.key for item in items}
        for key in [key for key, kept in book.told.items() if kept and key not in there]:
            del book.told[key]
        room = MOST - sum(not kept for kept in book.told.values())
        for item in _new(items, book)[: max(0, room)]:
            _count(item, book)


def _new(items: Iterable[Item], book: Book) -> list[Item]:
    return [item for item in items if item.key not in book.told]


def _count(item: Item, book: Book) -> None:
    """One that cannot be read, or names no cause that is known here, is left to its lease."""
    try:
        failure = codec.decode(BindFailure, item.value)
        book.bind_failed(item.key, failure.type, Cause(failure.cause))
    except (BadRecord, ValueError) as error:
        log.warning("%s is left out: %s", item.key, error)
