"""ICMP sockets: one a family for all targets, unprivileged if the kernel allows that, raw otherwise.

IP_RECVERR stays off, so ICMP errors about one target (unreachable, time exceeded) never become errors of the
socket that all share; such a probe is lost by its timeout.
"""

import asyncio
import errno
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from ipaddress import ip_address
from typing import Any, NamedTuple

from agent.rtt.clock import DualTimestamp
from agent.rtt.packet import REPLY_TYPES, IpVersion, strip_ipv4_header

SocketAddress = tuple[Any, ...]
"""As getaddrinfo gives it: (host, port) or (host, port, flow, scope)."""

FAMILY_BY_VERSION = {IpVersion.V4: socket.AF_INET, IpVersion.V6: socket.AF_INET6}
VERSION_BY_FAMILY = {family: version for version, family in FAMILY_BY_VERSION.items()}

# Linux' numbers, absent from the socket module: asm-generic/socket.h, linux/icmp.h, linux/icmpv6.h.
_SO_TIMESTAMPNS = 35
_SOL_RAW = 255
_ICMP_FILTER = 1
_ICMPV6_FILTER = 1

_PROTOCOL = {IpVersion.V4: socket.IPPROTO_ICMP, IpVersion.V6: socket.IPPROTO_ICMPV6}
_RECEIVE_BUFFER_BYTES = 1 << 20
_LARGEST_DATAGRAM = 2048
_ANCILLARY_BYTES = 64
_MAX_BATCH = 1024
_TIMESPEC = struct.Struct("@ll")

_REFUSED_ERRNOS = {errno.EACCES, errno.EPERM}
_NO_FAMILY_ERRNOS = {errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT, errno.EINVAL}
_UNREACHABLE_ERRNOS = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN}


class IcmpRefused(Exception):
    """The kernel allows no ICMP socket. The text says which setting allows it."""


class SendResult(Enum):
    """What became of a probe at sending."""

    IN_FLIGHT = "under_way"
    UNREACHABLE = "unreachable"
    """No route or no such neighbour: an answer of the network, so the probe is lost."""
    UNSENT = "kept_back"
    """This host did not send it (buffers full, a firewall rule, a bad address): no probe at all."""


class Datagram(NamedTuple):
    """message: from the ICMP header on. source: numeric address. wall_ns: CLOCK_REALTIME at the kernel's receiving."""

    message: bytes
    source: str
    wall_ns: int


class EchoSocket:
    """A non-blocking ICMP socket. raw: it needs CAP_NET_RAW and sees all echo replies of the network namespace."""

    def __init__(self, sock: socket.socket, version: IpVersion, raw: bool) -> None:
        self._socket = sock
        self._strip = raw and version is IpVersion.V4
        self.version, self.raw = version, raw
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        if raw:
            _replies_only(sock, version)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, message: bytes, to: SocketAddress) -> SendResult:
        try:
            self._socket.sendto(message, to)
        except OSError as error:
            return SendResult.UNREACHABLE if error.errno in _UNREACHABLE_ERRNOS else SendResult.UNSENT
        return SendResult.IN_FLIGHT

    def drain(self) -> Iterator[Datagram]:
        """What has arrived, at most 1,024 messages. Unstamped ones are passed over; an error is not repeated."""
        for _ in range(_MAX_BATCH):
            try:
                data, ancillary, _flags, source = self._socket.recvmsg(_LARGEST_DATAGRAM, _ANCILLARY_BYTES)
            except BlockingIOError:
                return
            except OSError:
                continue
            stamp = _kernel_timestamp_ns(ancillary)
            if stamp is not None:
                yield Datagram(strip_ipv4_header(data) if self._strip else data, source[0], stamp)


def read_clocks() -> DualTimestamp:
    """The monotonic clock, and the one that the kernel stamps received messages with."""
    return DualTimestamp(time.monotonic_ns(), time.time_ns())


def open_sockets(opener: Callable[..., socket.socket] = socket.socket) -> Mapping[IpVersion, EchoSocket]:
    """A socket for each family that this kernel has. IcmpRefused when it allows none."""
    opened = {version: _open(version, opener) for version in IpVersion}
    sockets = {version: sock for version, sock in opened.items() if sock is not None}
    if not sockets:
        raise IcmpRefused(_how_to_allow(_ping_group_range()))
    return sockets


def _open(version: IpVersion, opener: Callable[..., socket.socket]) -> EchoSocket | None:
    """The family's socket; None when the family does not exist or both kinds are refused."""
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        try:
            sock = opener(FAMILY_BY_VERSION[version], kind, _PROTOCOL[version])
        except OSError as error:
            if error.errno not in _REFUSED_ERRNOS | _NO_FAMILY_ERRNOS:
                raise
        else:
            return EchoSocket(sock, version, raw=kind == socket.SOCK_RAW)
    return None


def _replies_only(sock: socket.socket, version: IpVersion) -> None:
    """Has the kernel pass echo replies alone: a raw socket would see every ICMP message. A set bit blocks a type."""
    if version is IpVersion.V4:
        sock.setsockopt(_SOL_RAW, _ICMP_FILTER, struct.pack("@I", 0xFFFFFFFF & ~(1 << REPLY_TYPES[version])))
        return
    words = [0xFFFFFFFF] * 8
    words[REPLY_TYPES[version] >> 5] &= ~(1 << (REPLY_TYPES[version] & 31))
    sock.setsockopt(socket.IPPROTO_ICMPV6, _ICMPV6_FILTER, struct.pack("@8I", *words))


def _kernel_timestamp_ns(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) >= _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            return int(seconds * 1_000_000_000 + nanoseconds)
    return None


def _ping_group_range(path: str = "/proc/sys/net/ipv4/ping_group_range") -> str:
    try:
        with open(path, encoding="ascii") as file:
            return " ".join(file.read().split())
    except OSError:
        return "unreadable"


def _how_to_allow(group_range: str) -> str:
    return (
        f'ICMP sockets are refused: net.ipv4.ping_group_range is "{group_range}" and excludes this process\'s group, '
        'and it lacks CAP_NET_RAW. Allow it with `sysctl -w net.ipv4.ping_group_range="0 2147483647"`, in a pod with '
        "securityContext.sysctls (a safe sysctl; with hostNetwork set it on the node), or probe by TCP"
    )


# Turns a peer's address into a socket address: literal addresses at once, host names by the resolver on a thread.


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
