"""Reads the lists of this node's own records, which others may write too, and of each no more than an agent can use."""

import logging

from leadsman.runtime.problem_log import ProblemLog
from leadsman.state.etcd_json import prefix_end
from leadsman.state.store import KeyRange, Listing, Store

log = logging.getLogger(__name__)


class CappedList:
    """The records under a prefix, the first `most` in key order. The log says when there are more."""

    def __init__(self, store: Store, prefix: str, most: int) -> None:
        self._store, self._range = store, KeyRange(prefix, prefix_end(prefix.encode()).decode(), most)
        self._problem = ProblemLog(
            log,
            f"agent reads the first {most} records under {prefix} and ignores the others; delete those that no agent "
            "or extender wrote, and delete the pod whose token wrote them",
            f"agent reads all records under {prefix} again",
        )

    async def read(self, revision: int = 0) -> Listing:
        """Reads the list as of `revision`; 0: now. `more` says that records were left out. Raises StoreErrors."""
        listing = await self._store.read_page(self._range, revision)
        if listing.more:
            self._problem.report(f"{len(listing.items)} read")
        else:
            self._problem.clear()
        return listing
