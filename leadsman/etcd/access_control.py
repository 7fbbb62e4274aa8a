"""Switches etcd's access control on, and sees to it that a user has its role and its password.

Nothing is remembered between calls: an etcd that lost its data has neither users nor access control, and gets both
again.
"""

import base64
import hashlib
import hmac
import logging
from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct, field, structs

from leadsman.state import etcd_json, keys
from leadsman.state.etcd_http import EtcdAccess, EtcdTransport
from leadsman.state.etcd_json import (
    AnyResponse,
    AuthDisabled,
    AuthenticateResponse,
    JsonBody,
    UnknownCredential,
    prefix_end,
)
from leadsman.state.records import RingEntry
from leadsman.state.store import StoreError

# Who may read and write which keys.
#
# agent/<node>   reads and writes the node's records and its entry on the ring, reads the ring and its probe
# requests, reads and deletes its failed binds
# extender       reads all nodes' records; reads and writes probe requests, failed binds and reservations of devices
# controller     reads all nodes' records and reservations of devices
#
# Source of the keys: `leadsman.state.keys`.

READ, READ_WRITE = "READ", "READWRITE"


class Permission(Struct, frozen=True, order=True):
    """A right on the keys from `key` to before `range_end`; "": on that key alone. kind: READ or READWRITE."""

    kind: str
    key: str
    range_end: str = ""


class EtcdRole(Struct, frozen=True):
    """A user of etcd, and the role of the same name."""

    name: str
    permissions: frozenset[Permission]


def agent_role(node: str) -> EtcdRole:
    """ValueError when the name is no node's."""
    own = (
        _under(READ_WRITE, keys.node_prefix(node)),
        Permission(READ_WRITE, keys.record_key(node, RingEntry)),
        _under(READ, keys.RING_PREFIX),
        _under(READ, keys.probes_prefix(node)),
        _under(READ_WRITE, keys.bind_failures_prefix(node)),
    )
    return EtcdRole(f"agent/{node}", frozenset(own))


def _under(kind: str, prefix: str) -> Permission:
    return Permission(kind, prefix, prefix_end(prefix.encode()).decode())


_NODES = _under(READ, keys.NODES_PREFIX)
_EXTENDERS_OWN = (keys.PROBES_PREFIX, keys.BIND_FAILURES_PREFIX, keys.RESERVATIONS_PREFIX)
EXTENDER = EtcdRole("extender", frozenset({_NODES, *(_under(READ_WRITE, prefix) for prefix in _EXTENDERS_OWN)}))
CONTROLLER = EtcdRole("controller", frozenset({_NODES, _under(READ, keys.RESERVATIONS_PREFIX)}))


log = logging.getLogger(__name__)

ROOT = "root"
"""etcd's own name for the user and the role that may do everything."""


class UserList(Struct, frozen=True):
    """The response to a list of users."""

    users: tuple[str, ...] = ()


class RoleList(Struct, frozen=True):
    """The response to a list of roles, and to a question for a user's."""

    roles: tuple[str, ...] = ()


class StoredPermission(Struct, frozen=True):
    """A permission as etcd shows it. kind: left out for READ, which is etcd's zero."""

    key: bytes
    range_end: bytes = b""
    kind: str = field(name="permType", default="READ")


class StoredRole(Struct, frozen=True):
    """The response to a question for a role."""

    perm: tuple[StoredPermission, ...] = ()


class AccessControl:
    """etcd's users and roles, by root's password. access: with root and where its password is."""

    def __init__(self, access: EtcdAccess) -> None:
        self._access = access
        self._root = EtcdTransport(access)

    async def close(self) -> None:
        await self._root.close()

    async def enable(self) -> None:
        """Switches access control on where it is off, and removes every user and role that was there before.

        While it was off, anybody could have made them. StoreError as raised.
        """
        try:
            await self._call("user/list", {}, UserList)
        except AuthDisabled:
            await self._enable_as_nobody()
            await self._remove_others()
            log.info("etcd's access control is on")

    async def password(self, role: EtcdRole) -> str:
        """The user's password, once etcd has the user with this password and this role alone. StoreError as raised."""
        password = derived_password(self._access.read_password(), role.name)
        if not await self._is_right(role, password):
            await self._make(role, password)
        return password

    async def _enable_as_nobody(self) -> None:
        nobody = EtcdTransport(structs.replace(self._access, user=""))
        root = {"name": ROOT, "password": self._access.read_password()}
        try:
            with suppress(StoreError):  # It may be there, from an attempt that was cut short.
                await nobody.call("/v3/auth/user/add", root, AnyResponse)
            await nobody.call("/v3/auth/user/changepw", root, AnyResponse)
            with suppress(StoreError):
                await nobody.call("/v3/auth/role/add", {"name": ROOT}, AnyResponse)
            await nobody.call("/v3/auth/user/grant", {"user": ROOT, "role": ROOT}, AnyResponse)
            await nobody.call("/v3/auth/enable", {}, AnyResponse)
        finally:
            await nobody.close()

    async def _remove_others(self) -> None:
        for user in (await self._call("user/list", {}, UserList)).users:
            if user != ROOT:
                await self._call("user/delete", {"name": user})
        for role in (await self._call("role/list", {}, RoleList)).roles:
            if role != ROOT:
                await self._call("role/delete", {"role": role})

    async def _is_right(self, role: EtcdRole, password: str) -> bool:
        try:
            await self._call("authenticate", {"name": role.name, "password": password}, AuthenticateResponse)
            user = await self._call("user/get", {"name": role.name}, RoleList)
            stored = await self._call("role/get", {"role": role.name}, StoredRole)
        except UnknownCredential:
            return False
        except StoreError as error:
            if "not found" in str(error):
                return False
            raise
        return user.roles == (role.name,) and {_permission(each) for each in stored.perm} == role.permissions

    async def _make(self, role: EtcdRole, password: str) -> None:
        """Made from nothing: what somebody granted beside ours goes. Another replica may do the same just now."""
        for path, body in _making(role, password):
            try:
                await self._call(path, body)
            except StoreError as error:
                if not any(text in str(error) for text in ("not found", "already exists")):
                    raise
        log.info("etcd's user %s was made, with the rights of its role", role.name)

    async def _call(self, path: str, body: JsonBody, kind: type[etcd_json.A] = AnyResponse) -> etcd_json.A:  # type: ignore[assignment]
        return await self._root.call(f"/v3/auth/{path}", body, kind)


def derived_password(root_password: str, user: str) -> str:
    """A user's password: the same from each replica of the issuer, and nothing is kept. HMAC-SHA256 (RFC 2104)."""
    return hmac.new(root_password.encode(), f"leadsman etcd user {user}".encode(), hashlib.sha256).hexdigest()


def _making(role: EtcdRole, password: str) -> Sequence[tuple[str, JsonBody]]:
    user, name = {"user": role.name}, {"name": role.name}
    return [
        ("user/delete", name),
        ("role/delete", {"role": role.name}),
        ("role/add", name),
        *(("role/grant", name | {"perm": _grant(each)}) for each in sorted(role.permissions)),
        ("user/add", name | {"password": password}),
        ("user/grant", user | {"role": role.name}),
    ]


def _grant(permission: Permission) -> JsonBody:
    end = base64.b64encode(permission.range_end.encode()).decode()
    return {"permType": permission.kind, "key": permission.key.encode(), "range_end": end}


def _permission(stored: StoredPermission) -> Permission:
    return Permission(stored.kind, stored.key.decode(), stored.range_end.decode())
