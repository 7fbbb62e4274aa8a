"""Encodes and decodes ICMP echo for IPv4 (RFC 792) and IPv6 (RFC 4443). Pure.

    type 1 | code 1 | checksum 2 | identifier 2 | sequence 2 | cookie 8 | counter 8 | zeros 40

A reply is ours by the cookie and the counter in its payload. The identifier does not count: a datagram socket rewrites
it, and a raw socket sees every process's.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

COOKIE_BYTES = 8
MAX_COUNTER = 2**64 - 1

_PADDING = bytes(40)
"""Pads the payload to ping's 56 bytes, so that both take the same path through the same queues."""

_HEADER = struct.Struct("!BBHHH")
_BODY = struct.Struct(f"!{COOKIE_BYTES}sQ")
_WORDS = struct.Struct(f"!{(_HEADER.size + _BODY.size + len(_PADDING)) // 2}H")
_SHORTEST_IPV4_HEADER = 20


class IpVersion(IntEnum):
    """Of the Internet Protocol."""

    V4 = 4
    V6 = 6


_REQUEST_TYPES = {IpVersion.V4: 8, IpVersion.V6: 128}
REPLY_TYPES = {IpVersion.V4: 0, IpVersion.V6: 129}


class EchoPayload(NamedTuple):
    """What identifies a probe.

    cookie: 8 random bytes, the same for all probes of a process.
    counter: 0 .. 2^64 - 1, never twice in a process.
    """

    cookie: bytes
    counter: int


def encode_request(version: IpVersion, echo: EchoPayload, identifier: int) -> bytes:
    """An echo request. The kernel overwrites an IPv6 checksum, since it covers the addresses."""
    body = _BODY.pack(*echo) + _PADDING
    sequence = echo.counter & 0xFFFF
    blank = _HEADER.pack(_REQUEST_TYPES[version], 0, 0, identifier, sequence) + body
    return _HEADER.pack(_REQUEST_TYPES[version], 0, checksum(blank), identifier, sequence) + body


def decode_reply(version: IpVersion, data: bytes) -> EchoPayload | None:
    """The payload that an ICMP message returns; None for anything but an echo reply of sufficient length."""
    if len(data) < _HEADER.size + _BODY.size or data[0] != REPLY_TYPES[version] or data[1] != 0:
        return None
    return EchoPayload(*_BODY.unpack_from(data, _HEADER.size))


def strip_ipv4_header(data: bytes) -> bytes:
    """The payload of an IPv4 packet, as a raw socket returns it; empty when that is no IPv4 packet."""
    length = (data[0] & 0x0F) * 4 if data else 0
    whole = _SHORTEST_IPV4_HEADER <= length <= len(data) and data[0] >> 4 == IpVersion.V4
    return data[length:] if whole else b""


def checksum(message: bytes) -> int:
    """RFC 1071: the one's complement of the one's complement sum of 16-bit words, of a message as long as ours."""
    total: int = sum(_WORDS.unpack(message))
    while total > 0xFFFF:
        total = (total >> 16) + (total & 0xFFFF)
    return ~total & 0xFFFF
