import asyncio
import errno
import socket
import struct

import pytest

from agent.rtt import prober
from agent.rtt.peer import Answered, Lost

IPV4 = socket.AF_INET


def tcp_info(rtt_us, retransmits=0):
    info = bytearray(104)
    struct.pack_into("@I", info, 68, rtt_us)
    struct.pack_into("@I", info, 100, retransmits)
    return bytes(info)


async def test_an_accepted_handshake_is_an_answer() -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        found = await prober.handshake(IPV4, server.sockets[0].getsockname(), 5.0)
    assert isinstance(found, Answered)
    assert 0 < found.rtt_seconds < 1


async def test_a_refused_connection_is_an_answer_of_the_host() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found = await prober.handshake(IPV4, free.getsockname(), 5.0)
    assert isinstance(found, Answered)
    assert 0 < found.rtt_seconds < 1


async def test_a_full_backlog_is_lost_at_the_timeout() -> None:
    """Linux drops a SYN that finds the accept queue full."""
    with socket.socket() as full, socket.socket() as first:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        first.connect(full.getsockname())
        assert await prober.handshake(IPV4, full.getsockname(), 0.1) == Lost()


async def test_no_route_is_lost() -> None:
    assert await prober.handshake(IPV4, ("255.255.255.255", 9), 0.5) == Lost()


async def test_no_descriptors_is_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "socket", refuse)
    assert await prober.handshake(IPV4, ("127.0.0.1", 9), 0.5) is None


def test_the_kernels_time_wins_over_ours() -> None:
    assert prober.parse_tcp_info(tcp_info(250), elapsed_seconds=0.080) == Answered(250e-6)


def test_a_repeated_syn_is_a_lost_probe() -> None:
    assert prober.parse_tcp_info(tcp_info(250, retransmits=1), elapsed_seconds=1.1) == Lost()


@pytest.mark.parametrize("info", [b"", bytes(104), tcp_info(90_000)])
def test_a_time_that_cannot_be_is_replaced_by_its_bound(info) -> None:
    assert prober.parse_tcp_info(info, elapsed_seconds=0.080) == Answered(0.080)
