"""The store on etcd v3, over its JSON gateway.

The gateway answers a watch only when the request's body has ended, so a progress request cannot follow on the
same line (found on 3.5.1). A line that has been silent is opened anew at the same revision instead: the answer
proves that etcd lives and that nothing was missed, and its absence that it does not.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing

from leadsman.state import etcd_json
from leadsman.state.etcd_http import EtcdAccess, EtcdTransport, LineReader
from leadsman.state.etcd_json import WatchResponse
from leadsman.state.key_values import ChangeBatch, KeyRange, Listing, Precondition, StoredItem, Write
from leadsman.state.store import LARGEST_TRANSACTION_OPS, Compacted, Denied, LeaseLost, PreconditionFailed, StoreError

PAGE_KEYS = 500
"""At 4 KiB a value one page is 2.7 MB of JSON at most."""


class EtcdStore:
    """leadsman.state.store.Store on etcd.

    silence_seconds: a watch raises Unavailable at the latest after so long without a sign of life. Half of it
    is waited for, then a new line has the call timeout to be opened.
    """

    def __init__(self, access: EtcdAccess, *, silence_seconds: float = 10.0):
        if silence_seconds < 2 * access.call_timeout_seconds:
            raise ValueError(f"silence_seconds {silence_seconds}: want 2 x call timeout {access.call_timeout_seconds}")
        self.transport = EtcdTransport(access)
        self._silence_seconds = silence_seconds

    async def read_prefix(self, prefix: str) -> Listing:
        """Pages of PAGE_KEYS, each within the call timeout."""
        start, end, revision = prefix.encode(), etcd_json.prefix_end(prefix.encode()), 0
        items: list[StoredItem] = []
        while True:
            body = etcd_json.range_request(start, end, revision, PAGE_KEYS)
            page = await self.transport.call("/v3/kv/range", body, etcd_json.RangeResponse)
            revision = revision or page.header.revision
            items += map(etcd_json.to_stored_item, page.kvs)
            if not page.more:
                return Listing(tuple(items), revision, page.header.cluster_id)
            start = page.kvs[-1].key + b"\0"

    async def read_ranges(self, ranges: Sequence[KeyRange]) -> tuple[Listing, ...]:
        if len(ranges) > LARGEST_TRANSACTION_OPS:
            raise ValueError(f"{len(ranges)} ranges: at most {LARGEST_TRANSACTION_OPS}")
        done = await self.transport.call("/v3/kv/txn", etcd_json.read_txn_request(ranges), etcd_json.ReadTxnResponse)
        found = (tuple(map(etcd_json.to_stored_item, one.response_range.kvs)) for one in done.responses)
        return tuple(Listing(items, done.header.revision, done.header.cluster_id) for items in found)

    async def watch(self, prefix: str, start_revision: int, cluster: str = "") -> AsyncGenerator[ChangeBatch]:
        resume = start_revision
        while True:
            async with aclosing(self._watch_stream(prefix, resume, cluster)) as batches:
                async for batch in batches:
                    resume = batch.resume_revision
                    yield batch

    async def write(self, writes: Sequence[Write], lease: int = 0, guard: Precondition | None = None) -> int:
        if len({write.key for write in writes}) < len(writes):
            raise ValueError(f"a key twice in one write: {sorted(write.key for write in writes)}")
        revision = 0
        for start in range(0, len(writes) or 1, LARGEST_TRANSACTION_OPS):
            body = etcd_json.write_txn_request(writes[start : start + LARGEST_TRANSACTION_OPS], lease, guard)
            done = await self.transport.call("/v3/kv/txn", body, etcd_json.TxnResponse)
            if not done.succeeded:
                raise PreconditionFailed(f"{guard.key if guard else ''}: somebody else wrote it")
            revision = done.header.revision
        return revision

    async def grant(self, ttl_seconds: int) -> int:
        granted = await self.transport.call("/v3/lease/grant", {"TTL": str(ttl_seconds)}, etcd_json.LeaseGrantResponse)
        return granted.id

    async def keep_alive(self, lease: int) -> None:
        answer = await self.transport.call("/v3/lease/keepalive", {"ID": str(lease)}, etcd_json.StreamMessage)
        if etcd_json.unwrap_result(answer, etcd_json.LeaseKeepAliveResponse).ttl <= 0:
            raise LeaseLost(f"lease {lease}: ran out")

    async def revoke(self, lease: int) -> None:
        try:
            await self.transport.call("/v3/lease/revoke", {"ID": str(lease)}, etcd_json.AnyResponse)
        except LeaseLost:
            return

    async def close(self) -> None:
        await self.transport.close()

    async def _watch_stream(self, prefix: str, start: int, cluster: str) -> AsyncGenerator[ChangeBatch]:
        """One streaming call; ends when it has been silent for half of silence_seconds."""
        body = etcd_json.watch_request(prefix, start)
        async with self.transport.stream("/v3/watch", body, _check_created, self._silence_seconds / 2) as opened:
            created = etcd_json.decode_stream_line(opened.first, WatchResponse)
            _check_history(created, start, cluster)
            yield ChangeBatch((), start)
            while (watched := await _next_message(opened.rest)) is not None:
                for batch in _batches(watched, created.header.revision):
                    yield batch


def _check_created(first: bytes) -> None:
    """Raises the error of a watch that never began. A stale token and a forbidden prefix look the same in it."""
    watched = etcd_json.decode_stream_line(first, WatchResponse)
    if watched.canceled:
        error = _cancel_error(watched)
        raise etcd_json.InvalidAuthToken(str(error)) if isinstance(error, Denied) else error


async def _next_message(lines: LineReader) -> WatchResponse | None:
    """None when the line is silent."""
    try:
        watched = etcd_json.decode_stream_line(await lines.next(), WatchResponse)
    except TimeoutError:
        return None
    if watched.canceled:
        raise _cancel_error(watched)
    return watched


def _cancel_error(watched: WatchResponse) -> StoreError:
    """etcd may set `created` on a message that ends the watch too, so this is asked first."""
    if watched.compact_revision:
        return Compacted(f"compacted up to revision {watched.compact_revision}")
    return etcd_json.error_from_text(watched.cancel_reason or "watch cancelled", etcd_json.GRPC_UNAVAILABLE)


def _check_history(created: WatchResponse, start: int, cluster: str) -> None:
    """Compacted when what the caller knows is not this store's past: it was wiped, restored or is behind."""
    found = created.header
    if cluster and found.cluster_id != cluster:
        raise Compacted(f"cluster {found.cluster_id}, not {cluster} any longer")
    if found.revision < start - 1:
        raise Compacted(f"revision {found.revision}, but {start - 1} was seen before")


def _batches(watched: WatchResponse, began: int) -> Iterator[ChangeBatch]:
    """The changes before the watch began, then those since. A transaction has one revision and is never parted.

    Without events it is progress: the header's revision has been reached, unless it answers a request by hand.
    """
    changes = tuple(map(etcd_json.to_change, watched.events))
    backlog = tuple(c for c in changes if c.mod_revision <= began)
    for part, old in ((backlog, True), (changes[len(backlog) :], False)):
        if part:
            yield ChangeBatch(part, part[-1].mod_revision + 1, old)
    if not changes and watched.watch_id >= 0:
        yield ChangeBatch((), watched.header.revision + 1)
