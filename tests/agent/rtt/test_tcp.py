import errno
import socket
import struct

import pytest

from agent.rtt import prober
from agent.rtt.icmp import Endpoint, IpVersion
from agent.rtt.peer import Answered, Lost


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


async def test_a_full_backlog_is_lost_at_the_timeout() -> None:
    """Linux drops a SYN that finds the accept queue full."""
    with socket.socket() as full, socket.socket() as first:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        first.connect(full.getsockname())
        assert await prober.handshake(*at(full.getsockname()), 0.1) == Lost()


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
