"""Reads the lists of this node's own records, which others may write too, and of each no more than an agent can use."""

import logging

from leadsman.runtime.problem_log import ProblemLog
from leadsman.state.etcd_json import prefix_end
from leadsman.state.records import LARGEST_VALUE_BYTES
from leadsman.state.store import PAGE_KEYS, KeyRange, Listing, Store, StoredItem

log = logging.getLogger(__name__)


class CappedList:
    """The records under a prefix, the first `most` in key order.

    cuts: reads that left records out, since the start, for metrics.
    """

    def __init__(self, store: Store, prefix: str, most: int) -> None:
        self._store, self._prefix, self._most = store, prefix, most
        self.cuts = 0
        self._problem = ProblemLog(
            log,
            f"agent reads the first {most} records under {prefix} and ignores the others; delete those that no agent "
            "or extender wrote, and delete the pod whose token wrote them",
            f"agent reads all records under {prefix} again",
        )

    async def read(self, revision: int = 0) -> Listing:
        """At one revision; 0: the newest. `more` says that records were left out. Raises StoreErrors."""
        start, end = self._prefix, prefix_end(self._prefix.encode()).decode()
        items: list[StoredItem] = []
        while True:
            page = await self._store.read_page(KeyRange(start, end, min(PAGE_KEYS, self._most - len(items))), revision)
            items += map(_cut_value, page.items)
            if not page.more or len(items) >= self._most:
                self._record(page.more)
                return Listing(tuple(items), page.revision, page.cluster_id, page.more)
            revision, start = page.revision, f"{page.items[-1].key}\0"

    def _record(self, cut: bool) -> None:
        self.cuts += cut
        if cut:
            self._problem.report(f"{self._most} read")
        else:
            self._problem.clear()


def _cut_value(item: StoredItem) -> StoredItem:
    """The item with no more of its value than shows that it is too large."""
    if len(item.value) <= LARGEST_VALUE_BYTES:
        return item
    return StoredItem(item.key, item.value[: LARGEST_VALUE_BYTES + 1], item.mod_revision, item.lease)
