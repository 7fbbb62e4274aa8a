"""Writes records that outlive their agent, as etcdctl printed them of one etcd, into another that lacks them."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from leadsman.runtime.decode_errors import UNREADABLE
from leadsman.state import keys
from leadsman.state.store import Precondition, PreconditionFailed, Put, Store


class SavedItem(Struct, frozen=True):
    """A key and its value. etcdctl prints both in base64."""

    key: bytes
    value: bytes = b""


class SavedListing(Struct, frozen=True):
    """What `etcdctl get --prefix --write-out=json` prints."""

    kvs: tuple[SavedItem, ...] = ()


def lasting_records(text: bytes) -> list[Put]:
    """The rewards in a listing, and what was counted for them: all else lives under leases. ValueError: no listing."""
    try:
        listing = msgspec.json.decode(text, type=SavedListing)
        items = [(item.key.decode(), item.value) for item in listing.kvs]
    except (*UNREADABLE, UnicodeDecodeError) as error:
        raise ValueError(f"this is not what `etcdctl get --prefix --write-out=json` prints: {error}") from error
    return [Put(key, value) for key, value in items if _lasts(key)]


def _lasts(key: str) -> bool:
    parsed = keys.parse(key)
    if parsed is not None:
        return parsed.kind == keys.REWARDS_KIND
    node = key.removeprefix(keys.NODES_PREFIX).partition("/")[0]
    return keys.is_node_name(node) and key in {keys.counted_totals_key(node, shard) for shard in keys.COUNTED_SHARDS}


async def write_absent(store: Store, records: Sequence[Put]) -> int:
    """Writes each record whose key is absent. How many those were. StoreError as raised; begin again then."""
    written = 0
    for record in records:
        try:
            await store.write([record], precondition=Precondition(record.key, None))
        except PreconditionFailed:
            continue
        written += 1
    return written
