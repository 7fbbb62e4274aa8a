"""What was counted already: (pod's UID, mark) → total. Kept beside the rewards, so that nothing is counted twice. Pure.

Pods that nothing happened to are not in it, so it grows with the problems, not with the pods. It is kept in 16 parts by
UID, of which a write names the changed ones only.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from leadsman.state.codec import LARGEST_VALUE_BYTES

SHARDS = tuple("0123456789abcdef")

_Totals = dict[str, dict[str, Annotated[int, Meta(ge=0)]]]


class TotalsShard(Struct, frozen=True, tag_field="v", tag=1):
    """pods: UID → mark → total."""

    pods: _Totals


class CountedTotals:
    """changed: the parts that were altered since they were last cleared from it."""

    def __init__(self, parts: Iterable[TotalsShard] = ()) -> None:
        self._pods: _Totals = {}
        for part in parts:
            self._pods |= {uid: dict(totals) for uid, totals in part.pods.items()}
        self.changed_shards: set[str] = set()

    def uncounted(self, uid: str, mark: str, total: int) -> int:
        """How many of `total` were not counted yet."""
        return max(0, total - self._pods.get(uid, {}).get(mark, 0))

    def record(self, uid: str, mark: str, total: int) -> None:
        """All of `total` are counted now. A total never goes back."""
        if self.uncounted(uid, mark, total):
            self._pods.setdefault(uid, {})[mark] = total
            self.changed_shards.add(shard_of(uid))

    def forget(self, uid: str) -> None:
        """The pod is gone for good: UIDs do not come back."""
        if self._pods.pop(uid, None) is not None:
            self.changed_shards.add(shard_of(uid))

    def keep_only(self, uids: Iterable[str]) -> None:
        for uid in self._pods.keys() - set(uids):
            self.forget(uid)

    def encode_shard(self, part: str) -> bytes:
        """The part's value, at most 4 KiB: about 60 troubled pods. Of more, the oldest are left out, which could be
        counted again when the agent starts anew."""
        pods = {uid: totals for uid, totals in self._pods.items() if shard_of(uid) == part}
        while len(data := msgspec.json.encode(TotalsShard(pods))) > LARGEST_VALUE_BYTES:
            del pods[next(iter(pods))]
        return data

    def __len__(self) -> int:
        return len(self._pods)

    def totals(self, uid: str) -> Mapping[str, int]:
        return self._pods.get(uid, {})


def shard_of(uid: str) -> str:
    return SHARDS[blake2b(uid.encode(), digest_size=1).digest()[0] % len(SHARDS)]


def decode_shard(data: bytes) -> TotalsShard | None:
    """None for what is no such part: as if nothing had been counted under it."""
    try:
        return msgspec.json.decode(data, type=TotalsShard)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
