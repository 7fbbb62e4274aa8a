"""The store on etcd v3, over its JSON gateway.

The gateway answers a watch only when the request's body has ended, so a progress request cannot follow on the same
stream (found on 3.5.1). A silent stream is opened again at the same revision instead: a response proves that etcd is
alive and that nothing was missed, no response that it is not.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing

from leadsman.state import etcd_json
from leadsman.state.etcd_http import EtcdAccess, EtcdTransport, LineReader, ResponseTooLarge
from leadsman.state.etcd_json import EtcdEvent, RangeResponse, WatchResponse
from leadsman.state.store import (
    LARGEST_TRANSACTION_OPS,
    PAGE_KEYS,
    ChangeBatch,
    Compacted,
    Deleted,
    KeyRange,
    LeaseLost,
    Listing,
    Precondition,
    PreconditionFailed,
    StoredItem,
    StoreError,
    Updated,
    Write,
)


class EtcdStore:
    """Is the leadsman.state.store.Store that keeps everything in etcd.

    silence_seconds: a watch raises Unavailable at the latest after so long without a byte. After half of it a new
    stream is opened, which has the call timeout to begin.
    """

    def __init__(self, access: EtcdAccess, *, silence_seconds: float = 10.0):
        if silence_seconds < 2 * access.call_timeout_seconds:
            raise ValueError(
                f"silence_seconds {silence_seconds} must be at least twice the call timeout of "
                f"{access.call_timeout_seconds} s"
            )
        self.transport = EtcdTransport(access)
        self._silence_seconds = silence_seconds

    async def read_prefix(self, prefix: str) -> Listing:
        """Reads pages of PAGE_KEYS keys, each within the call timeout."""
        start, end, revision = prefix.encode(), etcd_json.prefix_end(prefix.encode()), 0
        items: list[StoredItem] = []
        while True:
            page = await self._range(start, end, revision, PAGE_KEYS)
            revision = revision or page.header.revision
            items += map(etcd_json.to_stored_item, page.kvs)
            if not page.more:
                return Listing(tuple(items), revision, page.header.cluster_id)
            start = page.kvs[-1].key + b"\0"

    async def read_page(self, keys: KeyRange, revision: int = 0) -> Listing:
        page = await self._range(keys.start.encode(), keys.end.encode(), revision, keys.limit)
        items = tuple(map(etcd_json.to_stored_item, page.kvs))
        return Listing(items, revision or page.header.revision, page.header.cluster_id, page.more)

    async def read_ranges(self, ranges: Sequence[KeyRange]) -> tuple[Listing, ...]:
        if len(ranges) > LARGEST_TRANSACTION_OPS:
            raise ValueError(f"{len(ranges)} ranges in one call; at most {LARGEST_TRANSACTION_OPS} are allowed")
        response = await self.transport.call("/v3/kv/txn", etcd_json.read_txn_request(ranges), etcd_json.TxnResponse)
        header, found = response.header, (tuple(map(etcd_json.to_stored_item, kvs)) for kvs in response.ranges())
        return tuple(Listing(items, header.revision, header.cluster_id) for items in found)

    async def watch(self, prefix: str, start_revision: int, cluster_id: str = "") -> AsyncGenerator[ChangeBatch]:
        resume = start_revision
        while True:
            async with aclosing(self._watch_stream(prefix, resume, cluster_id)) as batches:
                async for batch in batches:
                    resume = batch.resume_revision
                    yield batch

    async def write(self, writes: Sequence[Write], lease: int = 0, *preconditions: Precondition) -> int:
        if len({write.key for write in writes}) < len(writes):
            raise ValueError(f"duplicate keys in one write: {sorted(write.key for write in writes)}")
        revision = 0
        for start in range(0, len(writes) or 1, LARGEST_TRANSACTION_OPS):
            body = etcd_json.write_txn_request(writes[start : start + LARGEST_TRANSACTION_OPS], lease, preconditions)
            response = await self.transport.call("/v3/kv/txn", body, etcd_json.TxnResponse)
            if not response.succeeded:
                found = [kvs[0].value if kvs else None for kvs in response.ranges()]
                raise PreconditionFailed.of(preconditions, found)
            revision = response.header.revision
        return revision

    async def grant(self, ttl_seconds: int) -> int:
        granted = await self.transport.call("/v3/lease/grant", {"TTL": str(ttl_seconds)}, etcd_json.LeaseResponse)
        return granted.id

    async def keep_alive(self, lease: int) -> None:
        message = await self.transport.call("/v3/lease/keepalive", {"ID": str(lease)}, etcd_json.StreamMessage)
        if etcd_json.unwrap_result(message, etcd_json.LeaseResponse).ttl <= 0:
            raise LeaseLost(f"lease {lease} has expired")

    async def revoke(self, lease: int) -> None:
        try:
            await self.transport.call("/v3/lease/revoke", {"ID": str(lease)}, etcd_json.AnyResponse)
        except LeaseLost:
            return

    async def close(self) -> None:
        await self.transport.close()

    async def _range(self, start: bytes, end: bytes, revision: int, limit: int) -> RangeResponse:
        """Returns the first items, at most `limit`; fewer when the response would be too large."""
        body = etcd_json.range_request(start, end, revision, limit)
        try:
            return await self.transport.call("/v3/kv/range", body, RangeResponse)
        except ResponseTooLarge:
            if limit == 1:
                raise
            return await self._range(start, end, revision, max(1, limit // 8))

    async def _watch_stream(self, prefix: str, start: int, cluster_id: str) -> AsyncGenerator[ChangeBatch]:
        """Yields the changes from one streaming call, which ends when it was silent for half of silence_seconds."""
        body = etcd_json.watch_request(prefix, start)
        async with self.transport.stream("/v3/watch", body, _check_created, self._silence_seconds / 2) as opened:
            first, rest = opened
            created = etcd_json.decode_stream_line(first, WatchResponse)
            _check_history(created, start, cluster_id)
            yield ChangeBatch((), start)
            begun: tuple[Updated | Deleted, ...] = ()
            while (message := await _next_message(rest)) is not None:
                changes, begun = _whole_transactions(begun, message)
                for batch in _batches(changes, message, created.header.revision):
                    yield batch


def _check_created(first: bytes) -> None:
    """Raises the error of a watch that did not begin."""
    message = etcd_json.decode_stream_line(first, WatchResponse)
    if message.canceled:
        raise _cancel_error(message)


async def _next_message(lines: LineReader) -> WatchResponse | None:
    """Returns the next message; None when the stream is silent."""
    try:
        message = etcd_json.decode_stream_line(await lines.next(), WatchResponse)
    except TimeoutError:
        return None
    if message.canceled:
        raise _cancel_error(message)
    return message


def _cancel_error(message: WatchResponse) -> StoreError:
    """Says why the watch was cancelled. Checked before `created`, which etcd may set on such a message too."""
    if message.compact_revision:
        return Compacted(f"compacted up to revision {message.compact_revision}")
    return etcd_json.error_from_text(message.cancel_reason or "watch cancelled", etcd_json.GRPC_UNAVAILABLE)


def _check_history(created: WatchResponse, start: int, cluster_id: str) -> None:
    """Raises Compacted when the caller's revision is not in this store's past: etcd was wiped, restored or is
    behind."""
    header = created.header
    if cluster_id and header.cluster_id != cluster_id:
        raise Compacted(f"etcd cluster ID changed from {cluster_id} to {header.cluster_id}: etcd was replaced")
    if header.revision < start - 1:
        raise Compacted(f"etcd revision went back from {start - 1} to {header.revision}: restored from a backup?")


def to_change(event: EtcdEvent) -> Updated | Deleted:
    """Returns the change, as the store returns it."""
    kv = event.kv
    key = kv.key.decode(errors=etcd_json.NOT_OURS)
    return Deleted(key, kv.mod_revision) if event.type == "DELETE" else Updated(key, kv.value, kv.mod_revision)


def _whole_transactions(
    begun: Sequence[Updated | Deleted], message: WatchResponse
) -> tuple[tuple[Updated | Deleted, ...], tuple[Updated | Deleted, ...]]:
    """Returns the changes that can be used, and those of a transaction that goes on in the next message. begun: of one
    that the message before began."""
    changes = (*begun, *map(to_change, message.events))
    if not message.fragment:
        return changes, ()
    whole = sum(change.mod_revision < changes[-1].mod_revision for change in changes)
    return changes[:whole], changes[whole:]


def _batches(
    changes: tuple[Updated | Deleted, ...], message: WatchResponse, began_at_revision: int
) -> Iterator[ChangeBatch]:
    """Yields the changes before the watch began, then those since. A transaction has one revision and is never split.

    A message without events is progress: the header's revision is reached. One that answers a manual progress request
    is not.
    """
    backlog = tuple(c for c in changes if c.mod_revision <= began_at_revision)
    for part, is_backlog in ((backlog, True), (changes[len(backlog) :], False)):
        if part:
            yield ChangeBatch(part, part[-1].mod_revision + 1, is_backlog)
    if not message.events and message.watch_id >= 0:
        yield ChangeBatch((), message.header.revision + 1)
