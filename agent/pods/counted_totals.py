"""How many incidents of each pod were counted: (pod's UID, mark) → total. Pure.

The totals are kept in etcd beside the rewards, so that nothing is counted twice. Pods that nothing happened to are not
in them, so they grow with the problems, not with the pods. Each pod belongs to one of 16 shards by its UID, and a
write names the changed shards only.
"""

from collections.abc import Iterable, Mapping

from leadsman.state import keys
from leadsman.state.records import LARGEST_VALUE_BYTES, CountedTotalsShard, record_size_bytes


class CountedTotals:
    """changed_shards: altered since they were last removed from this set."""

    def __init__(self, restored: Iterable[CountedTotalsShard] = ()) -> None:
        self._pods: dict[str, dict[str, int]] = {}
        for record in restored:
            self._pods |= {uid: dict(totals) for uid, totals in record.pods.items()}
        self.changed_shards: set[str] = set()

    def __len__(self) -> int:
        return len(self._pods)

    def totals(self, uid: str) -> Mapping[str, int]:
        return self._pods.get(uid, {})

    def uncounted(self, uid: str, mark: str, total: int) -> int:
        """How many of `total` were not counted yet."""
        return max(0, total - self._pods.get(uid, {}).get(mark, 0))

    def record(self, uid: str, mark: str, total: int) -> None:
        """All of `total` are counted now."""
        if self.uncounted(uid, mark, total):
            self._pods.setdefault(uid, {})[mark] = total
            self.changed_shards.add(keys.counted_shard(uid))

    def lower(self, uid: str, mark: str, total: int) -> None:
        """The kubelet counts from `total` again: what it counts from there on is new."""
        self._pods[uid][mark] = total
        self.changed_shards.add(keys.counted_shard(uid))

    def forget(self, uid: str) -> None:
        """The pod is gone for good: UIDs do not come back."""
        if self._pods.pop(uid, None) is not None:
            self.changed_shards.add(keys.counted_shard(uid))

    def keep_only(self, uids: Iterable[str]) -> None:
        for uid in self._pods.keys() - set(uids):
            self.forget(uid)

    def shard_record(self, shard: str) -> CountedTotalsShard:
        """The shard as it is written: at most 4 KiB, which holds about 60 troubled pods.

        Of more pods, those noted first are left out. The next agent may count their incidents again.
        """
        pods = {uid: totals for uid, totals in self._pods.items() if keys.counted_shard(uid) == shard}
        record = CountedTotalsShard(pods)
        while record_size_bytes(record) > LARGEST_VALUE_BYTES:
            del record.pods[next(iter(record.pods))]
        return record
