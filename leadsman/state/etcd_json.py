"""Builds requests to etcd v3's JSON gateway, decodes its responses and turns its refusals into StoreErrors. Pure.

Bytes travel as base64 and 64-bit integers as strings; a field at its zero value is left out.
Source: api/etcdserverpb/rpc.proto, api/v3rpc/rpctypes/error.go in etcd-io/etcd.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from leadsman.runtime.decode_errors import UNREADABLE, explain
from leadsman.state import store
from leadsman.state.store import KeyRange, Precondition, Put, StoredItem, StoreError, Write

JsonBody = dict[str, Any]
A = TypeVar("A")
_NOTHING = msgspec.Raw(b"{}")


class ResponseHeader(Struct, frozen=True):
    """Mirrors the header of every response."""

    cluster_id: str = ""
    revision: int = 0


class KeyValue(Struct, frozen=True):
    """Mirrors a key with its value."""

    key: bytes
    value: bytes = b""
    mod_revision: int = 0
    lease: int = 0


class RangeResponse(Struct, frozen=True):
    """Mirrors the response to a range."""

    header: ResponseHeader
    kvs: tuple[KeyValue, ...] = ()
    more: bool = False


class TxnResponseOp(Struct, frozen=True):
    """Says what one operation of a transaction came to. response_range: None for a write."""

    response_range: RangeResponse | None = None


class TxnResponse(Struct, frozen=True):
    """Mirrors the response to a transaction. responses: where it did not succeed, the key of each precondition."""

    header: ResponseHeader
    succeeded: bool = False
    responses: tuple[TxnResponseOp, ...] = ()

    def ranges(self) -> list[tuple[KeyValue, ...]]:
        """Returns what each read found."""
        return [each.response_range.kvs for each in self.responses if each.response_range]


class LeaseResponse(Struct, frozen=True):
    """The response to the grant of a lease, and to a keep-alive; one for an expired lease has no TTL."""

    id: int = field(name="ID")
    ttl: int = field(name="TTL", default=0)


class AnyResponse(Struct, frozen=True):
    """A response of which only the arrival counts."""


class EtcdEvent(Struct, frozen=True):
    """One change in a message of a watch."""

    kv: KeyValue
    type: str = "PUT"


class WatchResponse(Struct, frozen=True):
    """One message of a watch.

    fragment: more of the last revision's events follow in the next message.
    watch_id: -1 in responses to a manual progress request, which we never send: up to etcd 3.5.7 they overtake the
    events that they confirm.
    """

    header: ResponseHeader
    created: bool = False
    canceled: bool = False
    compact_revision: int = 0
    cancel_reason: str = ""
    watch_id: int = 0
    fragment: bool = False
    events: tuple[EtcdEvent, ...] = ()


class GatewayError(Struct, frozen=True):
    """Mirrors a refusal of etcd's gateway. Gateways of different age nest it, and name its code, differently."""

    message: str = ""
    code: int = 0
    grpc_code: int = 0
    error: "GatewayError | str | None" = None


class StreamMessage(Struct, frozen=True):
    """One line of a streaming call; it has exactly one of the two."""

    result: msgspec.Raw = _NOTHING
    error: GatewayError | None = None


# etcd's text → our error. Texts come first: etcd uses the same code for a full store as for a busy one.
_BY_TEXT: tuple[tuple[str, type[StoreError]], ...] = (
    ("revision has been compacted", store.Compacted),
    ("is a future revision", store.Compacted),
    ("requested lease not found", store.LeaseLost),
    ("database space exceeded", store.OutOfSpace),
    ("user name is empty", store.Denied),
    ("permission denied", store.Denied),
)

# google.golang.org/grpc/codes: cancelled, unknown, deadline, exhausted, aborted, internal, unavailable; refused twice.
_BY_CODE: dict[int, type[StoreError]] = dict.fromkeys((1, 2, 4, 8, 10, 13, 14), store.Unavailable) | dict.fromkeys(
    (7, 16), store.Denied
)
GRPC_UNAVAILABLE = 14
_HTTP_SERVER_ERROR = 500


def decode_response(data: bytes, kind: type[A]) -> A:
    """Returns the response as `kind`. Raises Unavailable when it is not etcd's: another server's, or cut."""
    try:
        return msgspec.json.decode(data, type=kind, strict=False)
    except UNREADABLE as error:
        raise store.Unavailable(
            f"response is not etcd's JSON (wrong endpoint, or a cut response): {explain(error)}: {data[:80]!r}"
        ) from error


def error_from_response(status: int, data: bytes) -> StoreError:
    """Returns the error that a response with another status than 200 means."""
    try:
        fault = msgspec.json.decode(data, type=GatewayError, strict=False)
    except UNREADABLE:
        kind = store.Unavailable if status >= _HTTP_SERVER_ERROR else StoreError
        return kind(f"HTTP {status}: {data[:80]!r}")
    return _error(fault)


def decode_stream_line(data: bytes, kind: type[A]) -> A:
    """Returns the result on one line of a streaming call. Raises the error that is there instead."""
    return unwrap_result(decode_response(data, StreamMessage), kind)


def unwrap_result(message: StreamMessage, kind: type[A]) -> A:
    """Returns the result in one message of a streaming call. Raises the error that is there instead."""
    if message.error is not None:
        raise _error(message.error)
    return decode_response(bytes(message.result), kind)


def error_from_text(text: str, code: int = 0) -> StoreError:
    """Returns the error that etcd's text and code mean."""
    by_text = (kind for fragment, kind in _BY_TEXT if fragment in text)
    return next(by_text, _BY_CODE.get(code, StoreError))(text)


def _error(fault: GatewayError) -> StoreError:
    if isinstance(fault.error, GatewayError):
        return _error(fault.error)
    return error_from_text(fault.message or fault.error or "", fault.grpc_code or fault.code)


def prefix_end(prefix: bytes) -> bytes:
    """Returns the first key after all that begin with `prefix`."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else b"\0"


def range_request(start: bytes, end: bytes, revision: int, limit: int) -> JsonBody:
    """Reads at most `limit` keys. revision: 0: the newest."""
    return {"key": start, "range_end": end, "revision": str(revision), "limit": str(limit)}


def write_txn_request(writes: Sequence[Write], lease: int, preconditions: Sequence[Precondition]) -> JsonBody:
    """Writes in one transaction, if the preconditions hold. If not, it reads the key of each."""
    request: JsonBody = {"success": [_operation(write, lease) for write in writes]}
    if preconditions:
        request["compare"] = [_compare(each) for each in preconditions]
        request["failure"] = [{"request_range": {"key": each.key.encode()}} for each in preconditions]
    return request


def read_txn_request(ranges: Sequence[KeyRange]) -> JsonBody:
    """Reads all ranges in one transaction, at one revision."""
    bodies = [{"key": r.start.encode(), "range_end": r.end.encode(), "limit": str(r.limit)} for r in ranges]
    return {"success": [{"request_range": body} for body in bodies]}


def watch_request(prefix: str, start_revision: int) -> JsonBody:
    """Watches all keys under `prefix` from `start_revision` on, with progress messages. etcd divides what is larger
    than its limit of a request, 1.5 MiB by default."""
    key = prefix.encode()
    create = {"key": key, "range_end": prefix_end(key), "start_revision": str(start_revision)}
    return {"create_request": create | {"progress_notify": True, "fragment": True}}


NOT_OURS = "backslashreplace"
"""A key that is not UTF-8 is not ours; it is escaped so that a log can name it."""


def to_stored_item(kv: KeyValue) -> StoredItem:
    """Returns the item, as the store returns it."""
    return StoredItem(kv.key.decode(errors=NOT_OURS), kv.value, kv.mod_revision, kv.lease)


def _operation(write: Write, lease: int) -> JsonBody:
    key = write.key.encode()
    if isinstance(write, Put):
        return {"request_put": {"key": key, "value": write.value, "lease": str(lease)}}
    return {"request_delete_range": {"key": key}}


def _compare(precondition: Precondition) -> JsonBody:
    key = precondition.key.encode()
    if precondition.value is None:
        return {"key": key, "target": "CREATE", "create_revision": "0"}
    return {"key": key, "target": "VALUE", "value": precondition.value}
