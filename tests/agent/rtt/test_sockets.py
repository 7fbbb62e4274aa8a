import errno
import os
import select
import socket
import time

import pytest

from agent.rtt.icmp import (
    REPLY_TYPES,
    EchoPayload,
    EchoSocket,
    IcmpRefused,
    IpVersion,
    SendResult,
    encode_request,
    open_sockets,
    parse_literal,
)

LOOPBACK = {IpVersion.V4: ("127.0.0.1", 0), IpVersion.V6: ("::1", 0, 0, 0)}


def refusing(code, *kinds):
    """socket.socket that refuses these kinds."""

    def opener(family, kind, protocol):
        if kind in kinds:
            raise OSError(code, os.strerror(code))
        return socket.socket(family, kind, protocol)

    return opener


def answers(sock, count, deadline_seconds=5.0):
    found, until = [], time.monotonic() + deadline_seconds
    while len(found) < count and time.monotonic() < until:
        select.select([sock], [], [], 0.2)
        found += sock.drain()
    return found


def test_a_raw_socket_is_given_echo_replies_only(icmp) -> None:
    """On loopback it would see its own request first."""
    try:
        raw = open_sockets(refusing(errno.EACCES, socket.SOCK_DGRAM))
    except IcmpRefused:
        pytest.skip("no CAP_NET_RAW: run with sudo")
    for version, sock in raw.items():
        sock.send(encode_request(version, EchoPayload(b"loopback", 8), 1), LOOPBACK[version])
        assert {d.message[0] for d in answers(sock, 1)} == {REPLY_TYPES[version]}
        sock.close()


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM])
def test_a_kernel_that_refuses_both_is_told_how_to_allow_it(code) -> None:
    opener = refusing(code, socket.SOCK_DGRAM, socket.SOCK_RAW)
    with pytest.raises(IcmpRefused, match=r'net\.ipv4\.ping_group_range is "\d+ \d+".*sysctl -w .*"0 2147483647"'):
        open_sockets(opener)


class Refusing:
    """A socket whose kernel answers every call with an error, then has nothing more."""

    def __init__(self, *codes):
        self._codes = list(codes)

    def setblocking(self, flag): ...

    def setsockopt(self, *option): ...

    def _next(self, *arguments):
        if not self._codes:
            raise BlockingIOError
        code = self._codes.pop(0)
        raise OSError(code, os.strerror(code))

    sendto = recvmsg = _next


def refused_with(*codes: int) -> EchoSocket:
    return EchoSocket(Refusing(*codes), IpVersion.V4, raw=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (errno.ENETUNREACH, SendResult.UNREACHABLE),
        (errno.EHOSTUNREACH, SendResult.UNREACHABLE),
        (errno.EPERM, SendResult.UNSENT),
        (errno.ENOBUFS, SendResult.UNSENT),
        (errno.EAGAIN, SendResult.UNSENT),
        (errno.EINVAL, SendResult.UNSENT),
    ],
)
def test_a_send_error_is_lost_or_not_sent(code, expected) -> None:
    assert refused_with(code).send(b"", ("10.0.0.1", 0)) is expected


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("10.0.0.1", (IpVersion.V4, "10.0.0.1")),
        ("2001:DB8:0:0::1", (IpVersion.V6, "2001:db8::1")),
        *((name, None) for name in ("", "node-1", "10.0.0", "10.0.0.256", "fe80::1%no-such-device")),
    ],
)
def test_an_address_is_written_as_the_kernel_writes_it(address: str, found) -> None:
    """The source of a reply is compared with it as text."""
    endpoint = parse_literal(address)
    assert (endpoint and (endpoint.version, endpoint.address[0])) == found
