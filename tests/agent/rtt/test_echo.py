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


@pytest.fixture
def bench():
    return Bench()


def test_an_answer_is_timed_to_the_kernels_stamp(bench) -> None:
    bench.send()
    bench.pass_ms(90)
    bench.take(bench.answer(age_ms=50))
    assert bench.ended == [Answered(0.040)]


def test_a_duplicate_is_no_sample(bench) -> None:
    bench.send()
    bench.pass_ms(5)
    bench.take(bench.answer())
    bench.take(bench.answer())
    assert bench.ended == [Answered(0.005)]
    assert bench.echoes.unmatched_replies == {"duplicate_or_late": 1}


def test_a_reply_from_another_address_is_no_sample_and_the_true_one_still_counts(bench) -> None:
    bench.send()
    bench.pass_ms(5)
    bench.take(bench.answer(source="10.0.0.2"))
    assert bench.ended == []
    assert bench.echoes.unmatched_replies == {"wrong_source": 1}
    bench.take(bench.answer())
    assert bench.ended == [Answered(0.005)]


@pytest.mark.parametrize("message", [b"", bytes(64), bytes([3]) + bytes(63), b"\xff" * 2000])
def test_a_strangers_message_is_no_sample(bench, message) -> None:
    bench.send()
    bench.pass_ms(5)
    bench.take(Datagram(message, HOST[0], bench.now.wall_ns))
    assert bench.ended == []
    assert bench.echoes.unmatched_replies == {"stranger": 1}


def test_silence_is_lost_at_the_timeout_and_not_before(bench) -> None:
    bench.send()
    bench.pass_ms(999)
    bench.echoes.expire()
    assert bench.ended == []
    bench.pass_ms(1)
    bench.echoes.expire()
    assert bench.ended == [Lost()]


def test_a_late_reply_is_lost_and_never_a_latency(bench) -> None:
    bench.send()
    bench.pass_ms(1001)
    bench.take(bench.answer())
    bench.take(bench.answer())
    assert bench.ended == [Lost()]


def test_a_reply_that_waited_in_the_socket_while_the_loop_was_busy_is_in_time(bench) -> None:
    bench.send()
    bench.pass_ms(5000)
    bench.line.arrived.append(bench.answer(age_ms=4990))
    bench.echoes.expire()
    assert bench.ended == [Answered(0.010)]


@pytest.mark.parametrize("step_ms", [-3_600_000, -20, 20, 3_600_000])
def test_a_clock_set_under_way_makes_no_latency_and_no_loss(bench, step_ms: int) -> None:
    bench.send()
    bench.pass_ms(30, wall_step_ms=step_ms)
    bench.take(bench.answer())
    assert bench.ended == [Unusable()]


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
