"""Binds to this node that failed, as the extender tells them: pods that never came here.

Each is counted once: the key goes in the transaction that keeps the reward it changed.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from random import Random

from agent.pods.incident_ledger import IncidentLedger
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.runtime.problem_log import ProblemLog
from leadsman.state import codec, keys
from leadsman.state.codec import BadRecord
from leadsman.state.key_values import StoredItem
from leadsman.state.records import BindFailure
from leadsman.state.store import Store, StoreError

log = logging.getLogger(__name__)

POLL_SECONDS = 30.0
"""The extender keeps them for 300 s. One bounded read a node: 5,000 nodes ask etcd 170 times a second."""
MAX_UNSAVED = 32
"""Counted between two writes; the others wait their turn."""


class BindFailureCounter:
    """read_failures: for metrics."""

    def __init__(self, store: Store, node: str, rng: Random | None = None) -> None:
        self._store, self._prefix, self._rng = store, keys.bind_failures_prefix(node), rng or Random()
        self.read_failures = 0
        self._problem = ProblemLog(
            log,
            "agent cannot read bind failures from etcd; it tries again",
            "agent reads bind failures from etcd again",
        )

    async def run(self, book: Callable[[], IncidentLedger]) -> None:
        """For ever. StoreErrors are survived: what was told is read the next time."""
        while True:
            await asyncio.sleep(POLL_SECONDS * self._rng.uniform(0.9, 1.1))
            try:
                await self.poll(book())
            except StoreError as error:
                self.read_failures += 1
                self._problem.report(error)
            else:
                self._problem.clear()

    async def poll(self, book: IncidentLedger) -> None:
        """Counts what is new, and forgets what is gone from the store."""
        items = (await self._store.read_prefix(self._prefix)).items
        there = {item.key for item in items}
        for key in [key for key, kept in book.counted_bind_failures.items() if kept and key not in there]:
            del book.counted_bind_failures[key]
        room = MAX_UNSAVED - sum(not kept for kept in book.counted_bind_failures.values())
        for item in _new(items, book)[: max(0, room)]:
            _count(item, book)


def _new(items: Iterable[StoredItem], book: IncidentLedger) -> list[StoredItem]:
    return [item for item in items if item.key not in book.counted_bind_failures]


def _count(item: StoredItem, book: IncidentLedger) -> None:
    """One that cannot be read, or names no cause that is known here, is left to its lease."""
    try:
        failure = codec.decode(BindFailure, item.value)
        book.count_bind_failure(item.key, failure.type, IncidentCause(failure.cause))
    except (BadRecord, ValueError) as error:
        log.warning("agent ignores the bind failure under %s: %s", item.key, error)
