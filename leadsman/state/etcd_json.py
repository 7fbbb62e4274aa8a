"""The words of etcd v3's JSON gateway: requests built, answers typed, refusals turned into our errors. Pure.

Bytes travel as base64 and 64-bit integers as strings; a field at its zero value is left out.
Source: api/etcdserverpb/rpc.proto, api/v3rpc/rpctypes/error.go in etcd-io/etcd.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from leadsman.state import store
from leadsman.state.key_values import Deleted, KeyRange, Precondition, Put, StoredItem, Updated, Write
from leadsman.state.store import StoreError

JsonBody = dict[str, Any]
A = TypeVar("A")
_NOTHING = msgspec.Raw(b"{}")


class InvalidAuthToken(store.Denied):
    """etcd does not know this token any longer: log in again, once."""


class ResponseHeader(Struct, frozen=True):
    cluster_id: str = ""
    revision: int = 0


class KeyValue(Struct, frozen=True):
    key: bytes
    value: bytes = b""
    mod_revision: int = 0


class RangeResponse(Struct, frozen=True):
    header: ResponseHeader
    kvs: tuple[KeyValue, ...] = ()
    more: bool = False


class RangeResponseOp(Struct, frozen=True):
    """In a transaction; the transaction's header is the one that counts."""

    response_range: RangeResponse


class ReadTxnResponse(Struct, frozen=True):
    header: ResponseHeader
    responses: tuple[RangeResponseOp, ...] = ()


class TxnResponse(Struct, frozen=True):
    header: ResponseHeader
    succeeded: bool = False


class LeaseGrantResponse(Struct, frozen=True):
    id: int = field(name="ID")


class LeaseKeepAliveResponse(Struct, frozen=True):
    """A lease that has run out is answered without TTL."""

    ttl: int = field(name="TTL", default=0)


class AnyResponse(Struct, frozen=True):
    """Any answer of which only its arrival counts."""


class AuthenticateResponse(Struct, frozen=True):
    token: str


class EtcdEvent(Struct, frozen=True):
    kv: KeyValue
    type: str = "PUT"


class WatchResponse(Struct, frozen=True):
    """One message of a watch. watch_id is -1 in answers to a progress request by hand, which we never send:
    up to etcd 3.5.7 they overtake the events that they vouch for."""

    header: ResponseHeader
    created: bool = False
    canceled: bool = False
    compact_revision: int = 0
    cancel_reason: str = ""
    watch_id: int = 0
    events: tuple[EtcdEvent, ...] = ()


class GatewayError(Struct, frozen=True):
    """A refusal. Gateways of different age nest it, and name its code, differently."""

    message: str = ""
    code: int = 0
    grpc_code: int = 0
    error: "GatewayError | str | None" = None


class StreamMessage(Struct, frozen=True):
    """One line of a streaming call; exactly one of the two."""

    result: msgspec.Raw = _NOTHING
    error: GatewayError | None = None


# Text of etcd's → ours. Texts come first: etcd uses the same code for a full store as for one that is busy.
_BY_TEXT: tuple[tuple[str, type[StoreError]], ...] = (
    ("revision has been compacted", store.Compacted),
    ("is a future revision", store.Compacted),
    ("requested lease not found", store.LeaseLost),
    ("database space exceeded", store.OutOfSpace),
    ("invalid auth token", InvalidAuthToken),
    ("revision of auth store is old", InvalidAuthToken),
    ("authentication", store.Denied),
    ("user name is empty", store.Denied),
    ("permission denied", store.Denied),
)

# google.golang.org/grpc/codes: cancelled, unknown, deadline, exhausted, aborted, internal, unavailable; refused twice.
_BY_CODE: dict[int, type[StoreError]] = dict.fromkeys((1, 2, 4, 8, 10, 13, 14), store.Unavailable) | dict.fromkeys(
    (7, 16), store.Denied
)
GRPC_UNAVAILABLE = 14
_HTTP_SERVER_ERROR = 500
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_response(data: bytes, answer: type[A]) -> A:
    """Unavailable when these bytes are not etcd's: something else listens there, or the answer was cut."""
    try:
        return msgspec.json.decode(data, type=answer, strict=False)
    except _UNREADABLE as error:
        raise store.Unavailable(f"no answer of etcd's: {error}: {data[:80]!r}") from error


def error_from_response(status: int, data: bytes) -> StoreError:
    """The error that an answer other than 200 stands for."""
    try:
        fault = msgspec.json.decode(data, type=GatewayError, strict=False)
    except _UNREADABLE:
        kind = store.Unavailable if status >= _HTTP_SERVER_ERROR else StoreError
        return kind(f"HTTP {status}: {data[:80]!r}")
    return _error(fault)


def decode_stream_line(data: bytes, answer: type[A]) -> A:
    """The result on one line of a streaming call. Raises the error that stands there instead."""
    return unwrap_result(decode_response(data, StreamMessage), answer)


def unwrap_result(streamed: StreamMessage, answer: type[A]) -> A:
    """As `line`, of a call whose stream is one message long."""
    if streamed.error is not None:
        raise _error(streamed.error)
    return decode_response(bytes(streamed.result), answer)


def error_from_text(text: str, code: int = 0) -> StoreError:
    """The error for etcd's own words."""
    by_text = (kind for fragment, kind in _BY_TEXT if fragment in text)
    return next(by_text, _BY_CODE.get(code, StoreError))(text)


def _error(fault: GatewayError) -> StoreError:
    if isinstance(fault.error, GatewayError):
        return _error(fault.error)
    return error_from_text(fault.message or fault.error or "", fault.grpc_code or fault.code)


def prefix_end(prefix: bytes) -> bytes:
    """The first key after all that begin with `prefix`."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else b"\0"


def range_request(start: bytes, end: bytes, revision: int, limit: int) -> JsonBody:
    """A range of at most `limit` keys. revision 0: the newest."""
    return {"key": start, "range_end": end, "revision": str(revision), "limit": str(limit)}


def write_txn_request(writes: Sequence[Write], lease: int, guard: Precondition | None) -> JsonBody:
    compare = [] if guard is None else [_compare(guard)]
    return {"compare": compare, "success": [_operation(write, lease) for write in writes]}


def read_txn_request(wanted: Sequence[KeyRange]) -> JsonBody:
    """A transaction that reads, so that one call answers all at one revision."""
    bodies = [{"key": r.start.encode(), "range_end": r.end.encode(), "limit": str(r.limit)} for r in wanted]
    return {"success": [{"request_range": body} for body in bodies]}


def watch_request(prefix: str, start_revision: int) -> JsonBody:
    key = prefix.encode()
    create = {"key": key, "range_end": prefix_end(key), "start_revision": str(start_revision), "progress_notify": True}
    return {"create_request": create}


def to_stored_item(kv: KeyValue) -> StoredItem:
    return StoredItem(_text(kv.key), kv.value, kv.mod_revision)


def to_change(event: EtcdEvent) -> Updated | Deleted:
    kv = event.kv
    if event.type == "DELETE":
        return Deleted(_text(kv.key), kv.mod_revision)
    return Updated(_text(kv.key), kv.value, kv.mod_revision)


def _text(key: bytes) -> str:
    """A key that is no UTF-8 is nobody's; it is spelled so that it can be named in a log."""
    return key.decode(errors="backslashreplace")


def _operation(write: Write, lease: int) -> JsonBody:
    key = write.key.encode()
    if isinstance(write, Put):
        return {"request_put": {"key": key, "value": write.value, "lease": str(lease)}}
    return {"request_delete_range": {"key": key}}


def _compare(guard: Precondition) -> JsonBody:
    key = guard.key.encode()
    if guard.value is None:
        return {"key": key, "target": "CREATE", "create_revision": "0"}
    return {"key": key, "target": "VALUE", "value": guard.value}
