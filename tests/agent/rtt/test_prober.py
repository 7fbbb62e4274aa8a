import asyncio
import errno
import socket
import struct
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest
from msgspec import structs

from agent.rtt import prober
from agent.rtt.icmp import EchoSocket, Endpoint, IcmpRefused, IpVersion, open_sockets
from agent.rtt.peer import Answered, Lost, Peer, ProbeMode, ProbeSettings
from agent.rtt.prober import Prober
from leadsman.state.records import ProbeMethod
from tests.testbed.background import running
from tests.waiting import until

FAST = ProbeSettings(interval_seconds=0.05, timeout_seconds=0.5)
ONE, TWO = Peer("one", "127.0.0.1"), Peer("two", "127.0.0.2")


def refuse():
    raise IcmpRefused("no ICMP here")


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Of loopback: handshakes are answered there."""
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def known(prober):
    return prober.stats.latencies(time.monotonic())


def have_answered(prober, times):
    return {name for name, latency in known(prober).items() if latency.received >= times}


async def test_a_thousand_targets_are_measured_in_one_round(icmp) -> None:
    prober = Prober(ProbeSettings(timeout_seconds=0.9))
    prober.set_peers(Peer(f"n{i}", f"127.1.{i >> 8}.{i & 255}") for i in range(1, 1001))
    async with running(prober.run()):
        await until(lambda: prober.rounds >= 2)
        latencies = known(prober)
    assert len(latencies) == 1000
    assert all(latency.p50_ms > 0 for latency in latencies.values() if latency.received)
    sent, received = (sum(getattr(latency, field) for latency in latencies.values()) for field in ("sent", "received"))
    assert received >= 0.99 * sent


async def test_refused_icmp_falls_back_to_tcp_for_all_and_says_why_once(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    prober = Prober(structs.replace(FAST, tcp_port=port), opener=refuse)
    prober.set_peers([ONE, TWO])
    async with running(prober.run()):
        await until(lambda: have_answered(prober, 3) == {"one", "two"})
    assert {latency.method for latency in known(prober).values()} == {ProbeMethod.TCP}
    assert prober.icmp_refusal == "no ICMP here"
    assert [target.counts.unsent for target in prober.stats.targets.values()] == [0, 0]
    assert [r.message for r in caplog.records] == [
        "kernel refuses ICMP sockets; agent probes all peers by TCP handshakes: no ICMP here"
    ]


async def test_icmp_that_is_allowed_later_is_used_from_then_on(icmp, port: int) -> None:
    openers = [refuse, refuse, open_sockets]
    prober = Prober(structs.replace(FAST, tcp_port=port), opener=lambda: openers.pop(0)(), icmp_retry_seconds=0.05)
    prober.set_peers([ONE])
    async with running(prober.run()):
        await until(lambda: {latency.method for latency in known(prober).values()} == {ProbeMethod.TCP})
        await until(lambda: {latency.method for latency in known(prober).values()} == {ProbeMethod.ICMP})
        assert prober.icmp_refusal is None


async def test_in_mode_icmp_a_refusal_ends_it() -> None:
    with pytest.raises(IcmpRefused, match="no ICMP here"):
        await Prober(ProbeSettings(mode=ProbeMode.ICMP), opener=refuse).run()


@pytest.mark.parametrize("raw", [False, True])
async def test_the_loop_wakes_for_a_raw_socket_alone(raw: bool) -> None:
    """Replies wait for the next turn. A raw socket gets those to all processes: its buffer could be full by then."""
    echo = EchoSocket(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), IpVersion.V4, raw=False)
    echo.raw = raw
    prober = Prober(FAST, opener=lambda: {IpVersion.V4: echo})
    async with running(prober.run()):
        await until(lambda: prober.rounds >= 1)
        assert asyncio.get_running_loop().remove_reader(echo.fileno()) is raw


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port of loopback that lets handshakes time out: its queue of connections is full, and nobody accepts."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


async def test_a_lost_probe_is_followed_at_once_by_others_until_the_peer_is_silent(deaf_port: int) -> None:
    """At an interval of 20 s three losses would take 40 s."""
    slow = ProbeSettings(ProbeMode.TCP, 20.0, timeout_seconds=0.2, window_seconds=60.0, tcp_port=deaf_port)
    silent = asyncio.Event()
    prober = Prober(slow, on_silence=silent.set)
    prober.set_peers([ONE])
    async with running(prober.run()):
        await asyncio.wait_for(silent.wait(), 15)
    assert prober.stats.reachability(time.monotonic()).silent_peers == {"one"}


async def test_rounds_go_on_however_seldom_peers_are_probed() -> None:
    prober = Prober(ProbeSettings(ProbeMode.TCP, 3600.0, window_seconds=3600.0))
    async with running(prober.run()):
        await until(lambda: prober.rounds >= 1)


def at(address) -> tuple[Endpoint, int]:
    """Endpoint and port."""
    return Endpoint(IpVersion.V4, (address[0], 0)), address[1]


def tcp_info(rtt_us, retransmits=0):
    info = bytearray(104)
    struct.pack_into("@I", info, 68, rtt_us)
    struct.pack_into("@I", info, 100, retransmits)
    return bytes(info)


async def test_a_refused_connection_is_an_answer_of_the_host() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found = await prober.handshake(*at(free.getsockname()), 5.0)
    assert isinstance(found, Answered)
    assert 0 < found.rtt_seconds < 1


async def test_a_full_backlog_is_lost_at_the_timeout(deaf_port: int) -> None:
    """Linux drops a SYN that finds the accept queue full."""
    assert await prober.handshake(*at(("127.0.0.1", deaf_port)), 0.1) == Lost()


async def test_no_route_is_lost() -> None:
    assert await prober.handshake(*at(("255.255.255.255", 9)), 0.5) == Lost()


async def test_no_descriptors_is_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "socket", refuse)
    assert await prober.handshake(*at(("127.0.0.1", 9)), 0.5) is None


@pytest.mark.parametrize(
    ("info", "found"),
    [
        (tcp_info(250), Answered(250e-6)),  # The kernel's time wins over ours,
        (tcp_info(250, retransmits=1), Lost()),
        *((info, Answered(0.080)) for info in (b"", bytes(104), tcp_info(90_000))),  # unless it cannot be.
    ],
)
def test_what_the_kernel_knows_of_a_handshake_that_took_80_ms(info, found) -> None:
    assert prober.parse_tcp_info(info, elapsed_seconds=0.080) == found
