"""Sends ICMP echo requests and matches the replies.

In order: the round trip between two readings of a pair of clocks, the packets (RFC 792, RFC 4443), the sockets (one a
family for all targets, unprivileged if the kernel allows that, raw otherwise), a peer's address, and the client that
knows which probes are open.
"""

import errno
import os
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, IntEnum
from ipaddress import ip_address
from itertools import takewhile
from typing import Any, Generic, NamedTuple, TypeVar

from agent.rtt.peer import Answered, Lost, ProbeResult, Unusable

# The round-trip time between two readings of a pair of clocks.
#
# The kernel stamps received packets with CLOCK_REALTIME, which may be set at any moment. CLOCK_MONOTONIC read
# before sending and after receiving bounds the truth from above and shows that the other one was set.

_TOLERANCE_NS = 50_000
"""Two reads of the pair may be this far apart without a step: the time between reading one clock and the other."""


class DualTimestamp(NamedTuple):
    """Both clocks, read together."""

    monotonic_ns: int
    wall_ns: int

    @property
    def seconds(self) -> float:
        """Returns monotonic seconds."""
        return self.monotonic_ns / 1e9


DualClock = Callable[[], DualTimestamp]


def round_trip_ns(sent: DualTimestamp, received_wall_ns: int, now: DualTimestamp) -> int | None:
    """Returns the nanoseconds from `sent` to the kernel's receive stamp, in 1..elapsed; None when the wall clock was
    set meanwhile.

    `now` is read after the packet was taken from the socket.
    """
    elapsed = now.monotonic_ns - sent.monotonic_ns
    step = now.wall_ns - sent.wall_ns - elapsed
    round_trip = received_wall_ns - sent.wall_ns
    plausible = -_TOLERANCE_NS <= step <= _TOLERANCE_NS and 0 < round_trip <= elapsed
    return round_trip if plausible else None


# Encodes and decodes ICMP echo for IPv4 (RFC 792) and IPv6 (RFC 4443).
#
# type 1 | code 1 | checksum 2 | identifier 2 | sequence 2 | cookie 8 | counter 8 | zeros 40
#
# A reply is ours by the cookie and the counter in its payload. The identifier does not count: a datagram socket
# rewrites it, and a raw socket sees every process's.

COOKIE_BYTES = 8

_PADDING = bytes(40)
"""Pads the payload to ping's 56 bytes, so that both take the same path through the same queues."""

_HEADER = struct.Struct("!BBHHH")
_BODY = struct.Struct(f"!{COOKIE_BYTES}sQ")
_WORDS = struct.Struct(f"!{(_HEADER.size + _BODY.size + len(_PADDING)) // 2}H")
_SHORTEST_IPV4_HEADER = 20


class IpVersion(IntEnum):
    """A version of the Internet Protocol: ICMP's message types differ between the two."""

    V4 = 4
    V6 = 6


_REQUEST_TYPES = {IpVersion.V4: 8, IpVersion.V6: 128}
REPLY_TYPES = {IpVersion.V4: 0, IpVersion.V6: 129}


class EchoPayload(NamedTuple):
    """An open probe is known by these fields.

    cookie: 8 random bytes, the same for all probes of a process.
    counter: 0 .. 2^64 - 1, never twice in a process.
    """

    cookie: bytes
    counter: int


def encode_request(version: IpVersion, echo: EchoPayload, identifier: int) -> bytes:
    """Returns the bytes of an echo request. The kernel overwrites an IPv6 checksum, since it covers the addresses."""
    body = _BODY.pack(*echo) + _PADDING
    sequence = echo.counter & 0xFFFF
    blank = _HEADER.pack(_REQUEST_TYPES[version], 0, 0, identifier, sequence) + body
    return _HEADER.pack(_REQUEST_TYPES[version], 0, checksum(blank), identifier, sequence) + body


def decode_reply(version: IpVersion, data: bytes) -> EchoPayload | None:
    """Returns the payload that an ICMP message returns; None for anything but an echo reply of sufficient length."""
    if len(data) < _HEADER.size + _BODY.size or data[0] != REPLY_TYPES[version] or data[1] != 0:
        return None
    return EchoPayload(*_BODY.unpack_from(data, _HEADER.size))


def strip_ipv4_header(data: bytes) -> bytes:
    """Returns the payload of an IPv4 packet, as a raw socket returns it; empty when that is no IPv4 packet."""
    length = (data[0] & 0x0F) * 4 if data else 0
    whole = _SHORTEST_IPV4_HEADER <= length <= len(data) and data[0] >> 4 == IpVersion.V4
    return data[length:] if whole else b""


def checksum(message: bytes) -> int:
    """Computes the one's complement of the one's complement sum of the message's 16-bit words (RFC 1071)."""
    total: int = sum(_WORDS.unpack(message))
    while total > 0xFFFF:
        total = (total >> 16) + (total & 0xFFFF)
    return ~total & 0xFFFF


# ICMP sockets: one a family for all targets, unprivileged if the kernel allows that, raw otherwise.
#
# IP_RECVERR stays off, so ICMP errors about one target (unreachable, time exceeded) never become errors of the
# socket that all share; such a probe is lost by its timeout.

SocketAddress = tuple[Any, ...]
"""A socket's address as getaddrinfo gives it: (host, port) or (host, port, flow, scope)."""

FAMILY_BY_VERSION = {IpVersion.V4: socket.AF_INET, IpVersion.V6: socket.AF_INET6}

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
    """The outcome of sending a probe."""

    IN_FLIGHT = "under_way"
    UNREACHABLE = "unreachable"
    """No route or no such neighbour: an answer of the network, so the probe is lost."""
    UNSENT = "kept_back"
    """This host did not send it (buffers full, a firewall rule, a bad address): no probe at all."""


class Datagram(NamedTuple):
    """Holds a received packet, from the ICMP header on. wall_ns: CLOCK_REALTIME when the kernel received it."""

    message: bytes
    source: str
    wall_ns: int


class EchoSocket:
    """Sends and receives ICMP echoes through a socket that does not block. raw: it needs CAP_NET_RAW and sees all echo
    replies of the network namespace."""

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
        """Yields what has arrived, at most 1,024 messages. Unstamped ones are passed over; an error is not repeated."""
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
    """Reads the monotonic clock, and the one that the kernel stamps received messages with."""
    return DualTimestamp(time.monotonic_ns(), time.time_ns())


def open_sockets(opener: Callable[..., socket.socket] = socket.socket) -> Mapping[IpVersion, EchoSocket]:
    """Returns a socket for each family that this kernel has. Raises IcmpRefused when it allows none."""
    opened = {version: _open(version, opener) for version in IpVersion}
    sockets = {version: sock for version, sock in opened.items() if sock is not None}
    if not sockets:
        raise IcmpRefused(_how_to_allow())
    return sockets


def _open(version: IpVersion, opener: Callable[..., socket.socket]) -> EchoSocket | None:
    """Returns the family's socket; None when the family does not exist or both kinds are refused."""
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


def _how_to_allow() -> str:
    try:
        with open("/proc/sys/net/ipv4/ping_group_range", encoding="ascii") as file:
            group_range = " ".join(file.read().split())
    except OSError:
        group_range = "unreadable"
    return (
        f'ICMP sockets are refused: net.ipv4.ping_group_range is "{group_range}" and excludes this process\'s group, '
        'and it lacks CAP_NET_RAW. Allow it with `sysctl -w net.ipv4.ping_group_range="0 2147483647"`, in a pod with '
        "securityContext.sysctls (a safe sysctl; with hostNetwork set it on the node), or probe by TCP"
    )


class Endpoint(NamedTuple):
    """An address at which a peer is probed."""

    version: IpVersion
    address: SocketAddress


def parse_literal(address: str) -> Endpoint | None:
    """Returns the endpoint of an IPv4 or IPv6 address, with its zone if it has one; None for anything else."""
    try:
        version = IpVersion(ip_address(address).version)
        found = socket.getaddrinfo(address, 0, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)
    except (ValueError, OSError):
        return None
    return Endpoint(version, found[0][4])


# Sends echo requests and matches the replies.
#
# A reply counts when its cookie is this process's, its counter is of an open probe, and it comes from the address
# probed. So another process's reply, a forged one, a duplicate and a late one are no samples.

T = TypeVar("T")


ResultCallback = Callable[[T, float, ProbeResult], None]
"""Called once for every probe that was sent: target, monotonic seconds of sending, result."""


class _InFlight(NamedTuple, Generic[T]):
    target: T
    address: str
    sent: DualTimestamp


class EchoClient(Generic[T]):
    """Probes by ICMP echo.

    unmatched_replies: received messages that match no open probe, by reason.
    """

    def __init__(
        self,
        sockets: Mapping[IpVersion, EchoSocket],
        timeout_seconds: float,
        clock: DualClock,
        done: ResultCallback[T],
        cookie: bytes | None = None,
    ) -> None:
        self._sockets, self._clock, self._done = sockets, clock, done
        self._timeout_ns = round(timeout_seconds * 1e9)
        self._cookie = cookie or os.urandom(COOKIE_BYTES)
        self._identifier = int.from_bytes(self._cookie[:2], "big")
        self._counter = 0
        self._in_flight: dict[int, _InFlight[T]] = {}
        self.unmatched_replies: Counter[str] = Counter()

    def send(self, target: T, version: IpVersion, to: SocketAddress) -> SendResult:
        """Sends one probe. `done` is called later if the result is IN_FLIGHT, and never otherwise."""
        if version not in self._sockets:
            return SendResult.UNSENT
        self._counter += 1
        message = encode_request(version, EchoPayload(self._cookie, self._counter), self._identifier)
        stamp = self._clock()
        sent = self._sockets[version].send(message, to)
        if sent is SendResult.IN_FLIGHT:
            self._in_flight[self._counter] = _InFlight(target, to[0], stamp)
        return sent

    def receive(self) -> None:
        """Handles all messages that arrived."""
        for version, sock in self._sockets.items():
            for datagram in sock.drain():
                self.handle_datagram(version, datagram)

    def handle_datagram(self, version: IpVersion, datagram: Datagram) -> None:
        """Handles one message. The clock is read here, after it arrived."""
        probe, reason = self._match(decode_reply(version, datagram.message), datagram.source)
        if probe is None:
            self.unmatched_replies[reason] += 1
            return
        rtt = round_trip_ns(probe.sent, datagram.wall_ns, self._clock())
        result = Unusable() if rtt is None else Answered(rtt / 1e9) if rtt <= self._timeout_ns else Lost()
        self._done(probe.target, probe.sent.seconds, result)

    def expire(self) -> None:
        """Ends overdue probes as lost, after handling what waits in the sockets: it may have come in time."""
        deadline = self._clock().monotonic_ns - self._timeout_ns
        self.receive()
        # A dict keeps the order of sending, so the overdue ones are the first.
        for counter, probe in list(
            takewhile(lambda each: each[1].sent.monotonic_ns <= deadline, self._in_flight.items())
        ):
            del self._in_flight[counter]
            self._done(probe.target, probe.sent.seconds, Lost())

    def _match(self, echo: EchoPayload | None, source: str) -> tuple[_InFlight[T] | None, str]:
        if echo is None or echo.cookie != self._cookie:
            return None, "stranger"
        probe = self._in_flight.get(echo.counter)
        if probe is None:
            return None, "duplicate_or_late"
        if probe.address != source:
            return None, "wrong_source"
        return self._in_flight.pop(echo.counter), ""
