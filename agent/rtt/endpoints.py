"""Turns a peer's address into a socket address: literal addresses at once, host names by the resolver on a thread."""

import asyncio
import socket
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any, NamedTuple

from agent.rtt.packet import IpVersion
from agent.rtt.sockets import FAMILY_BY_VERSION, VERSION_BY_FAMILY, SocketAddress


class Endpoint(NamedTuple):
    """Where a peer is probed."""

    version: IpVersion
    address: SocketAddress

    @property
    def family(self) -> socket.AddressFamily:
        return FAMILY_BY_VERSION[self.version]

    def at_port(self, port: int) -> SocketAddress:
        return (self.address[0], port, *self.address[2:])


def parse_literal(address: str) -> Endpoint | None:
    """The endpoint of an IPv4 or IPv6 address, with its zone if it has one; None for a name."""
    try:
        ip_address(address)
        addresses = socket.getaddrinfo(address, 0, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)
    except (ValueError, OSError):
        return None
    return _first(addresses)


async def resolve(name: str) -> Endpoint | None:
    """The endpoint of a host name; None when it does not resolve now."""
    try:
        addresses = await asyncio.get_running_loop().getaddrinfo(name, 0, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return None
    return _first(addresses)


def _first(addresses: Iterable[tuple[Any, ...]]) -> Endpoint | None:
    """The first usable address, in the resolver's order of preference (RFC 6724)."""
    for family, _kind, _protocol, _name, address in addresses:
        if family in VERSION_BY_FAMILY:
            return Endpoint(VERSION_BY_FAMILY[family], address)
    return None
