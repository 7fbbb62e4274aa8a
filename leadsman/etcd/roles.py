"""Decides which requests each of our processes may send to etcd, and writes the request that etcd gets. Pure.

    agent/<node>   reads and writes the node's records and its entry on the ring, reads the ring and its probe
                   requests, reads and deletes its failed binds
    extender       reads all nodes' records; reads and writes probe requests, failed binds and reservations of devices
    controller     reads all nodes' records and reservations of devices
    member         a member of etcd: removes its former self, joins, and compares its data with the others'

What etcd gets is written from the fields that were checked, never from the client's bytes, so that nobody profits from
two parsers that read one JSON differently. A field that is not named here is refused.

A lease belongs to the role that was granted it: its number begins with a hash of the role's name. etcd takes the number
from the request that grants it, so no process can renew, end or use the lease of another, and nothing is kept here.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from leadsman.runtime.decode_errors import UNREADABLE, explain
from leadsman.state import keys
from leadsman.state.etcd_json import prefix_end
from leadsman.state.records import RingEntry

READ, READ_WRITE = "READ", "READWRITE"

MEMBER_PATHS = frozenset(
    {f"/v3/cluster/member/{verb}" for verb in ("list", "add", "remove")} | {"/v3/maintenance/hashkv"}
)


_ALL_THAT_FOLLOW = b"\0"
"""The end of a range that has all keys that follow. Source: etcdserverpb.RangeRequest."""


class Permission(Struct, frozen=True, order=True):
    """Grants a right on the keys from `key` to before `range_end`; "": on that key alone. kind: READ or READWRITE."""

    kind: str
    key: str
    range_end: str = ""

    def covers(self, start: bytes, end: bytes, *, write: bool) -> bool:
        """Tells whether it gives the right on all keys from `start` to before `end`; b"": on `start` alone."""
        if end == _ALL_THAT_FOLLOW or (write and self.kind != READ_WRITE):
            return False
        first, last = self.key.encode(), self.range_end.encode()
        return (first <= start < last and end <= last) if last else (start == first and not end)


class Role(Struct, frozen=True):
    """Says what one of our processes may do.

    paths: of etcd's gateway that are passed on as they are.
    is_limited: its requests are counted, because a stolen token of it must not be able to stop the others.
    """

    name: str
    permissions: frozenset[Permission] = frozenset()
    paths: frozenset[str] = frozenset()
    is_limited: bool = False

    def may(self, start: bytes, end: bytes = b"", *, write: bool = False) -> bool:
        return any(each.covers(start, end, write=write) for each in self.permissions)


def agent_role(node: str) -> Role:
    """Raises ValueError when the name is no node's."""
    own = (
        _under(READ_WRITE, keys.node_prefix(node)),
        Permission(READ_WRITE, keys.record_key(node, RingEntry)),
        _under(READ, keys.RING_PREFIX),
        _under(READ, keys.probes_prefix(node)),
        _under(READ_WRITE, keys.bind_failures_prefix(node)),
    )
    return Role(f"agent/{node}", frozenset(own), is_limited=True)


def _under(kind: str, prefix: str) -> Permission:
    return Permission(kind, prefix, prefix_end(prefix.encode()).decode())


_NODES = _under(READ, keys.NODES_PREFIX)
_EXTENDERS_OWN = (keys.PROBES_PREFIX, keys.BIND_FAILURES_PREFIX, keys.RESERVATIONS_PREFIX)
EXTENDER = Role("extender", frozenset({_NODES, *(_under(READ_WRITE, prefix) for prefix in _EXTENDERS_OWN)}))
CONTROLLER = Role("controller", frozenset({_NODES, _under(READ, keys.RESERVATIONS_PREFIX)}))
MEMBER = Role("member", paths=MEMBER_PATHS)


LONGEST_LEASE_SECONDS = 1800
_LEASE_SECONDS = frozenset(str(seconds) for seconds in range(1, LONGEST_LEASE_SECONDS + 1))
_RANDOM_BITS = 24
"""So many of a lease number's 63 bits are random; a role has a few dozen leases at once, and a number that is taken is
refused and asked for again."""


class Refused(Exception):
    """Why a request is not answered by etcd; the text says it without the token.

    code: of gRPC (google.golang.org/grpc/codes), as etcd's own refusals have one. status: of HTTP. outcome: as it is
    counted.
    """

    code, status, outcome = 14, 503, "unavailable"


class Malformed(Refused):
    """This is not a request that our processes send."""

    code, status, outcome = 3, 400, "malformed"


class NoLease(Refused):
    """There is no such lease of this role."""

    code, status, outcome = 5, 404, "forbidden"


class Forbidden(Refused):
    """The role, or the token, gives no right to this. The text says to what."""

    code, status, outcome = 7, 403, "forbidden"


class TooMuch(Refused):
    """This process asked for more than one needs. The text says of what."""

    code, status, outcome = 8, 429, "limited"


class NoToken(Refused):
    """The request shows no token."""

    code, status, outcome = 16, 401, "unauthenticated"


class _Strict(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A message of etcd's JSON gateway: bytes in base64, 64-bit numbers as text."""


class RangeBody(_Strict, frozen=True):
    key: bytes
    range_end: bytes = b""
    revision: str = ""
    limit: str = ""


class PutBody(_Strict, frozen=True):
    key: bytes
    value: bytes = b""
    lease: str = "0"


class DeleteBody(_Strict, frozen=True):
    key: bytes


class OperationBody(_Strict, frozen=True):
    request_range: RangeBody | None = None
    request_put: PutBody | None = None
    request_delete_range: DeleteBody | None = None


class CompareBody(_Strict, frozen=True):
    key: bytes
    target: str
    create_revision: str = ""
    value: bytes | None = None


class TransactionBody(_Strict, frozen=True):
    compare: tuple[CompareBody, ...] = ()
    success: tuple[OperationBody, ...] = ()
    failure: tuple[OperationBody, ...] = ()

    def operations(self) -> tuple[OperationBody, ...]:
        return self.success + self.failure


class GrantBody(_Strict, frozen=True):
    TTL: str
    ID: str = ""


class LeaseBody(_Strict, frozen=True):
    ID: str


class WatchCreation(_Strict, frozen=True):
    key: bytes
    range_end: bytes = b""
    start_revision: str = ""
    progress_notify: bool = False
    fragment: bool = False


class WatchBody(_Strict, frozen=True):
    create_request: WatchCreation


class Authorised(Struct, frozen=True):
    """A request that may be sent.

    written: keys that it writes, whichever branch of a transaction etcd takes. deleted: keys that each branch deletes,
    by whether the comparison succeeds.
    """

    body: bytes
    written: frozenset[bytes] = frozenset()
    deleted: Mapping[bool, frozenset[bytes]] = {}


def authorise(role: Role, path: str, body: bytes) -> Authorised:
    """Returns what etcd may be sent of a request. Raises Forbidden, NoLease or Malformed."""
    if path in role.paths:
        return Authorised(body)
    if path not in _CHECKS:
        raise Forbidden(f"{role.name} may not call {path}")
    kind, check = _CHECKS[path]
    try:
        request = msgspec.json.decode(body, type=kind)
    except UNREADABLE as error:
        raise Malformed(f"{path}: {explain(error)}") from error
    return check(role, request)


def is_own_lease(role: Role, lease: str) -> bool:
    return lease.isdecimal() and len(lease) <= len(str(1 << 63)) and int(lease) >> _RANDOM_BITS == _stamp(role)


def _stamp(role: Role) -> int:
    digest = hashlib.sha256(role.name.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (_RANDOM_BITS + 1) | 1 << (62 - _RANDOM_BITS)


def _range(role: Role, body: RangeBody) -> Authorised:
    _check_read(role, body.key, body.range_end)
    return _authorised(body)


def _watch(role: Role, body: WatchBody) -> Authorised:
    _check_read(role, body.create_request.key, body.create_request.range_end)
    return _authorised(body)


def _transaction(role: Role, body: TransactionBody) -> Authorised:
    for compared in body.compare:
        _check_read(role, compared.key)
    written = frozenset(put.key for put in _checked_puts(role, body))
    return _authorised(body, written, {True: _deletes(body.success), False: _deletes(body.failure)})


def _deletes(branch: Iterable[OperationBody]) -> frozenset[bytes]:
    return frozenset(each.request_delete_range.key for each in branch if each.request_delete_range)


def _checked_puts(role: Role, body: TransactionBody) -> Iterator[PutBody]:
    for operation in body.operations():
        if read := operation.request_range:
            _check_read(role, read.key, read.range_end)
        if deleted := operation.request_delete_range:
            _check_write(role, deleted.key)
        if put := operation.request_put:
            _check_write(role, put.key)
            if put.lease != "0":
                _check_lease(role, put.lease)
            yield put


def _grant(role: Role, body: GrantBody) -> Authorised:
    if body.TTL not in _LEASE_SECONDS or body.ID:
        raise Malformed(f"a lease lasts 1 to {LONGEST_LEASE_SECONDS} s, and gets its number from us")
    number = _stamp(role) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
    return _authorised(GrantBody(body.TTL, str(number)))


def _lease(role: Role, body: LeaseBody) -> Authorised:
    _check_lease(role, body.ID)
    return _authorised(body)


def _check_read(role: Role, key: bytes, range_end: bytes = b"") -> None:
    if not role.may(key, range_end):
        raise Forbidden(f"{role.name} may not read {_text(key)}{' and what follows' if range_end else ''}")


def _check_write(role: Role, key: bytes) -> None:
    if not role.may(key, write=True):
        raise Forbidden(f"{role.name} may not write {_text(key)}")


def _check_lease(role: Role, lease: str) -> None:
    if not is_own_lease(role, lease):
        raise NoLease(f"requested lease not found: {lease[:20]} is none of {role.name}")


def _authorised(
    body: _Strict, written: frozenset[bytes] = frozenset(), deleted: Mapping[bool, frozenset[bytes]] = {}
) -> Authorised:
    return Authorised(msgspec.json.encode(body), written, deleted)


def _text(key: bytes) -> str:
    return repr(key[:100])[2:-1]


_CHECKS: dict[str, tuple[type[_Strict], Callable[[Role, Any], Authorised]]] = {
    "/v3/kv/range": (RangeBody, _range),
    "/v3/kv/txn": (TransactionBody, _transaction),
    "/v3/lease/grant": (GrantBody, _grant),
    "/v3/lease/keepalive": (LeaseBody, _lease),
    "/v3/lease/revoke": (LeaseBody, _lease),
    "/v3/watch": (WatchBody, _watch),
}
