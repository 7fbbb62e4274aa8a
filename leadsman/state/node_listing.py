"""Lists the records of all nodes page by page, and skips what no reader keeps instead of reading it."""

import asyncio
from collections.abc import AsyncGenerator

from leadsman.state import keys
from leadsman.state.etcd_json import prefix_end
from leadsman.state.key_values import KeyRange, Listing, StoredItem
from leadsman.state.node_limits import NodeLimits
from leadsman.state.store import PAGE_KEYS, Store


async def node_pages(store: Store, prefix: str, limits: NodeLimits) -> AsyncGenerator[Listing]:
    """The nodes' records under `prefix`, page by page, all at the revision of the first. Raises StoreErrors; Compacted
    when it takes too long. Close it (`contextlib.aclosing`).

    The store reads the next page while the caller works on this one. Of a node with too many rewards, one page more
    than the limit is read at most.
    """
    end, rewards_seen = prefix_end(prefix.encode()).decode(), _RewardsSeen()
    next_page = asyncio.create_task(store.read_page(KeyRange(prefix, end, PAGE_KEYS)))
    try:
        while True:
            page = await next_page
            if page.more:
                crowded = rewards_seen.count(page.items) > limits.pod_types
                start = keys.next_record_key(page.items[-1].key, skip_rewards=crowded)
                next_page = asyncio.create_task(store.read_page(KeyRange(start, end, PAGE_KEYS), page.revision))
            yield page
            if not page.more:
                return
    finally:
        next_page.cancel()
        await asyncio.gather(next_page, return_exceptions=True)


class _RewardsSeen:
    """Counts the keys under the rewards of the node that a page ends in, over the pages that it fills."""

    def __init__(self) -> None:
        self._prefix, self._keys = "", 0

    def count(self, page: tuple[StoredItem, ...]) -> int:
        prefix = keys.rewards_prefix_of(page[-1].key)
        here = sum(item.key.startswith(prefix) for item in page) if prefix else 0
        self._keys = here + (self._keys if prefix == self._prefix else 0)
        self._prefix = prefix
        return self._keys
