"""Lists the records of all nodes page by page, and skips what no reader keeps instead of loading it."""

from leadsman.state import keys
from leadsman.state.codec import LARGEST_VALUE_BYTES
from leadsman.state.etcd_json import prefix_end
from leadsman.state.key_values import KeyRange, Listing, StoredItem
from leadsman.state.node_limits import NodeLimits
from leadsman.state.store import PAGE_KEYS, Store


async def list_nodes(store: Store, prefix: str, limits: NodeLimits) -> Listing:
    """The nodes' records under `prefix` at one revision. Raises StoreErrors; Compacted when it takes too long.

    Of a node with too many rewards, one page more than the limit is read at most. A value that is too large is cut, so
    that it is not kept in memory only to be refused.
    """
    start, end, revision = prefix, prefix_end(prefix.encode()).decode(), 0
    items: list[StoredItem] = []
    rewards_seen = _RewardsSeen()
    while True:
        page = await store.read_page(KeyRange(start, end, PAGE_KEYS), revision)
        revision = page.revision
        items += (cut_value(item) for item in page.items if keys.parse(item.key) is not None)
        if not page.more:
            return Listing(tuple(items), revision, page.cluster_id)
        last = page.items[-1].key
        crowded = rewards_seen.count(page.items) > limits.pod_types
        start = keys.next_record_key(last, skip_rewards=crowded)


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


def cut_value(item: StoredItem) -> StoredItem:
    """The item with no more of its value than shows that it is too large."""
    if len(item.value) <= LARGEST_VALUE_BYTES:
        return item
    return StoredItem(item.key, item.value[: LARGEST_VALUE_BYTES + 1], item.mod_revision, item.lease)
