import errno
import os
import select
import socket
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.rtt.icmp import (
    REPLY_TYPES,
    Datagram,
    DualTimestamp,
    EchoClient,
    EchoPayload,
    EchoSocket,
    IcmpRefused,
    IpVersion,
    SendResult,
    SocketAddress,
    checksum,
    decode_reply,
    encode_request,
    open_sockets,
    parse_literal,
    round_trip_ns,
    strip_ipv4_header,
)
from agent.rtt.peer import Answered, Lost, ProbeResult, Unusable

COOKIE = b"sounding"
HOST = ("10.0.0.1", 0)
MS = 1_000_000


class Line(EchoSocket):
    """Stands for an EchoSocket: keeps what is sent, yields what has arrived."""

    def __init__(self, outcome: SendResult = SendResult.IN_FLIGHT) -> None:
        self.outcome = outcome
        self.sent: list[bytes] = []
        self.arrived: list[Datagram] = []

    def send(self, message: bytes, to: SocketAddress) -> SendResult:
        self.sent.append(message)
        return self.outcome

    def drain(self) -> Iterator[Datagram]:
        while self.arrived:
            yield self.arrived.pop(0)


class Bench:
    """Echoes over a line, with clocks that are set by hand."""

    def __init__(self, outcome=SendResult.IN_FLIGHT):
        self.now, self.line = DualTimestamp(10**12, 10**18), Line(outcome)
        self.ended: list[ProbeResult] = []
        self.echoes: EchoClient[str] = EchoClient(
            {IpVersion.V4: self.line},
            1.0,
            lambda: self.now,
            lambda target, sent, result: self.ended.append(result),
            COOKIE,
        )

    def send(self):
        return self.echoes.send("target", IpVersion.V4, HOST)

    def pass_ms(self, ms, wall_step_ms=0):
        self.now = DualTimestamp(self.now.monotonic_ns + ms * MS, self.now.wall_ns + (ms + wall_step_ms) * MS)

    def answer(self, index=0, source=HOST[0], age_ms=0):
        """The reply to the index-th request, as the kernel stamped it age_ms ago."""
        message = bytes([REPLY_TYPES[IpVersion.V4]]) + self.line.sent[index][1:]
        return Datagram(message, source, self.now.wall_ns - age_ms * MS)

    def take(self, datagram):
        self.echoes.handle_datagram(IpVersion.V4, datagram)


def answered(ms, wall_step_ms=0, times=1, **how):
    """So long after sending, so many replies that are the same are read."""

    def happen(bench):
        bench.pass_ms(ms, wall_step_ms)
        for _ in range(times):
            bench.take(bench.answer(**how))

    return happen


def read_late(bench):
    """A reply waits in the socket while the loop is busy."""
    bench.pass_ms(5000)
    bench.line.arrived.append(bench.answer(age_ms=4990))
    bench.echoes.expire()


def expire(ms):
    def happen(bench):
        bench.pass_ms(ms)
        bench.echoes.expire()

    return happen


def stranger(message):
    return lambda bench: bench.take(Datagram(message, HOST[0], bench.now.wall_ns))


@pytest.mark.parametrize(
    ("events", "ended", "unmatched"),
    [
        ([answered(90, age_ms=50)], [Answered(0.040)], {}),
        ([answered(5, times=2)], [Answered(0.005)], {"duplicate_or_late": 1}),
        # The true one still counts.
        ([answered(5, source="10.0.0.2")], [], {"wrong_source": 1}),
        ([answered(5, source="10.0.0.2"), answered(0)], [Answered(0.005)], {"wrong_source": 1}),
        *(([stranger(each)], [], {"stranger": 1}) for each in (b"", bytes(64), bytes([3]) + bytes(63), b"\xff" * 2000)),
        ([expire(999)], [], {}),
        ([expire(999), expire(1)], [Lost()], {}),
        ([answered(1001)], [Lost()], {}),
        ([read_late], [Answered(0.010)], {}),
        # A clock that is set under way makes no latency and no loss.
        *(([answered(30, step)], [Unusable()], {}) for step in (-3_600_000, -20, 20, 3_600_000)),
    ],
)
def test_a_probe_ends_once_by_its_own_reply_or_the_timeout(events, ended, unmatched) -> None:
    bench = Bench()
    bench.send()
    for happen in events:
        happen(bench)
    assert (bench.ended, bench.echoes.unmatched_replies) == (ended, unmatched)


@pytest.mark.parametrize("outcome", [SendResult.UNREACHABLE, SendResult.UNSENT])
def test_what_was_not_sent_is_not_waited_for(outcome) -> None:
    bench = Bench(outcome)
    assert bench.send() is outcome
    bench.pass_ms(2000)
    bench.echoes.expire()
    assert bench.ended == []


SENT = DualTimestamp(monotonic_ns=5_000 * MS, wall_ns=1_700_000_000_000 * MS)


@given(st.integers(-(10**18), 10**18), st.integers(0, 10**12), st.integers(-(10**18), 10**18))
def test_a_round_trip_is_never_negative_zero_or_longer_than_what_has_elapsed(received_after, elapsed, step) -> None:
    now = DualTimestamp(SENT.monotonic_ns + elapsed, SENT.wall_ns + elapsed + step)
    found = round_trip_ns(SENT, SENT.wall_ns + received_after, now)
    assert found is None or 0 < found <= elapsed


echoes = st.builds(EchoPayload, st.binary(min_size=8, max_size=8), st.integers(0, 2**64 - 1))
versions = st.sampled_from(IpVersion)
identifiers = st.integers(0, 0xFFFF)


def answer(version, message):
    """What a host makes of a request: another type, the rest as it was."""
    return bytes([REPLY_TYPES[version]]) + message[1:]


@given(versions, echoes, identifiers)
def test_a_request_is_no_reply_and_its_answer_carries_its_echo(version, echo, identifier) -> None:
    """A raw socket on loopback sees its own requests."""
    request = encode_request(version, echo, identifier)
    assert decode_reply(version, request) is None
    assert decode_reply(version, answer(version, request)) == echo
    assert checksum(request) == 0


def test_a_request_is_as_long_as_that_of_ping() -> None:
    assert len(encode_request(IpVersion.V4, EchoPayload(bytes(8), 1), 1)) == 8 + 56


@given(versions, st.binary(max_size=100))
@example(IpVersion.V4, b"")
@example(IpVersion.V6, bytes([129]) + bytes(22))
def test_hostile_bytes_are_an_echo_or_nothing(version, data) -> None:
    found = decode_reply(version, data)
    assert found is None or (len(found.cookie) == 8 and 0 <= found.counter < 2**64)


@given(st.binary(max_size=100))
def test_hostile_ip_headers_give_a_tail_of_the_packet(data) -> None:
    assert data.endswith(strip_ipv4_header(data))


@pytest.mark.parametrize("options", [0, 4, 40])
def test_the_ip_header_goes_with_its_options(options: int) -> None:
    header = bytes([0x45 + options // 4]) + bytes(19 + options)
    assert strip_ipv4_header(header + b"message") == b"message"


LOOPBACK = {IpVersion.V4: ("127.0.0.1", 0), IpVersion.V6: ("::1", 0, 0, 0)}


def refusing(code, *kinds):
    """socket.socket that refuses these kinds."""

    def opener(family, kind, protocol):
        if kind in kinds:
            raise OSError(code, os.strerror(code))
        return socket.socket(family, kind, protocol)

    return opener


def test_a_raw_socket_is_given_echo_replies_only(icmp) -> None:
    """On loopback it would see its own request first."""
    try:
        raw = open_sockets(refusing(errno.EACCES, socket.SOCK_DGRAM))
    except IcmpRefused:
        pytest.skip("no CAP_NET_RAW: run with sudo")
    for version, sock in raw.items():
        sock.send(encode_request(version, EchoPayload(b"loopback", 8), 1), LOOPBACK[version])
        assert select.select([sock], [], [], 30.0)[0], "nothing arrived"
        assert {datagram.message[0] for datagram in sock.drain()} == {REPLY_TYPES[version]}
        sock.close()


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM])
def test_a_kernel_that_refuses_both_is_told_how_to_allow_it(code) -> None:
    opener = refusing(code, socket.SOCK_DGRAM, socket.SOCK_RAW)
    with pytest.raises(IcmpRefused, match=r'net\.ipv4\.ping_group_range is "\d+ \d+".*sysctl -w .*"0 2147483647"'):
        open_sockets(opener)


class Refusing(socket.socket):
    """Its kernel refuses to send, with this error."""

    code = 0

    def sendto(self, *_):
        raise OSError(self.code, os.strerror(self.code))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        *((code, SendResult.UNREACHABLE) for code in (errno.ENETUNREACH, errno.EHOSTUNREACH)),
        *((code, SendResult.UNSENT) for code in (errno.EPERM, errno.ENOBUFS, errno.EAGAIN, errno.EINVAL)),
    ],
)
def test_a_send_error_is_lost_or_not_sent(code, expected) -> None:
    with Refusing(socket.AF_INET, socket.SOCK_DGRAM) as refusing:
        refusing.code = code
        assert EchoSocket(refusing, IpVersion.V4, raw=False).send(b"", ("10.0.0.1", 0)) is expected


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
