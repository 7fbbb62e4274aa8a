"""Counts binds to this node that failed, from the records that the extender writes: pods that never came here.

Each is counted once: its key is deleted in the transaction that saves the reward it changed.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from random import Random

from agent.capped_list import CappedList
from agent.pods.incident_ledger import IncidentLedger
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.runtime.problem_log import ProblemLog
from leadsman.state import keys
from leadsman.state.records import BadRecord, BindFailure, decode_record
from leadsman.state.store import Listing, Store, StoredItem, StoreError

log = logging.getLogger(__name__)

POLL_SECONDS = 30.0
"""The extender keeps them for 300 s. One bounded read a node: 5,000 nodes ask etcd 170 times a second."""
MAX_UNSAVED = 32
"""Failures counted between two writes; the others wait for the next."""


MAX_LISTED = 256
"""Records read at a time; those beyond wait until these are counted and deleted."""


class BindFailureCounter:
    """Reads the bind failures of this node every 30 s.

    list: the records, with how often they were too many. read_failures: reads that failed since the start, for metrics.
    """

    def __init__(self, store: Store, node: str, rng: Random | None = None) -> None:
        self.list, self._rng = CappedList(store, keys.bind_failures_prefix(node), MAX_LISTED), rng or Random()
        self.read_failures = 0
        self._problem = ProblemLog(
            log,
            "agent cannot read bind failures from etcd; it tries again",
            "agent reads bind failures from etcd again",
        )

    async def run(self, ledger: Callable[[], IncidentLedger]) -> None:
        """Reads until cancelled. Survives StoreErrors: what could not be read is read the next time."""
        while True:
            await asyncio.sleep(POLL_SECONDS * self._rng.uniform(0.9, 1.1))
            try:
                await self.poll(ledger())
            except StoreError as error:
                self.read_failures += 1
                self._problem.report(error)
            else:
                self._problem.clear()

    async def poll(self, ledger: IncidentLedger) -> None:
        """Counts what is new and forgets what is gone from etcd."""
        listing = await self.list.read()
        items = listing.items
        for key in _gone(listing, ledger):
            del ledger.counted_bind_failures[key]
        room = MAX_UNSAVED - sum(not saved for saved in ledger.counted_bind_failures.values())
        for item in _new(items, ledger)[: max(0, room)]:
            _count(item, ledger)


def _gone(listing: Listing, ledger: IncidentLedger) -> list[str]:
    """The saved ones that etcd no longer has; beyond the end of a list that was cut nobody knows."""
    present = {item.key for item in listing.items}
    saved = [key for key, is_saved in ledger.counted_bind_failures.items() if is_saved and key not in present]
    return [key for key in saved if key < listing.items[-1].key] if listing.more else saved


def _new(items: Iterable[StoredItem], ledger: IncidentLedger) -> list[StoredItem]:
    return [item for item in items if item.key not in ledger.counted_bind_failures]


def _count(item: StoredItem, ledger: IncidentLedger) -> None:
    """Counts one failure. A record that is unreadable or has an unknown cause stays until its lease expires."""
    try:
        failure = decode_record(BindFailure, item.value)
        ledger.count_bind_failure(item.key, failure.type, IncidentCause(failure.cause))
    except (BadRecord, ValueError) as error:
        log.warning("agent ignores the bind failure under %s: %s", item.key, error)
