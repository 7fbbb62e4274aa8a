from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.rtt.icmp import (
    REPLY_TYPES,
    Datagram,
    DualTimestamp,
    EchoClient,
    EchoSocket,
    IpVersion,
    SendResult,
    SocketAddress,
    round_trip_ns,
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
