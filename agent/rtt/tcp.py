"""A TCP handshake as a probe, for peers that answer no ICMP.

The RTT is the kernel's own first sample (TCP_INFO), which a busy event loop does not change. A refused connection is an
answer too: the RST comes from the host. A handshake that needed its SYN twice is a lost probe.
"""

import asyncio
import contextlib
import errno
import socket
import struct
import time

from agent.rtt.peer import Answered, Lost, ProbeResult
from agent.rtt.sockets import SocketAddress

# struct tcp_info, linux/tcp.h: tcpi_rtt in microseconds, tcpi_total_retrans.
_TCP_INFO_BYTES = 104
_RTT_AT = 68
_RETRANSMITS_AT = 100
_U32 = struct.Struct("@I")

_RESET_ON_CLOSE = struct.pack("@ii", 1, 0)
"""SO_LINGER: leaves no TIME_WAIT behind, which at one probe a second would be 60 a peer."""

_ANSWERED_ERRNOS = {errno.ECONNREFUSED, errno.ECONNRESET}
_UNSENT_ERRNOS = {
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOBUFS,
    errno.ENOMEM,
    errno.EPERM,
    errno.EACCES,
    errno.EADDRNOTAVAIL,
}


async def handshake(family: socket.AddressFamily, to: SocketAddress, timeout_seconds: float) -> ProbeResult | None:
    """Probes once; None when this host could not send (no descriptors, buffers or ports; a firewall rule)."""
    try:
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    except OSError:
        return None
    with sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        return await _connect(sock, to, timeout_seconds)


async def _connect(sock: socket.socket, to: SocketAddress, timeout_seconds: float) -> ProbeResult | None:
    started = time.monotonic()
    try:
        async with asyncio.timeout(timeout_seconds):
            await asyncio.get_running_loop().sock_connect(sock, to)
    except TimeoutError:
        return Lost()
    except OSError as error:
        if error.errno in _UNSENT_ERRNOS:
            return None
        elapsed = time.monotonic() - started
        return Answered(elapsed) if error.errno in _ANSWERED_ERRNOS else Lost()
    return parse_tcp_info(_tcp_info(sock), time.monotonic() - started)


def _tcp_info(sock: socket.socket) -> bytes:
    with contextlib.suppress(OSError):
        return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    return b""


def parse_tcp_info(tcp_info: bytes, elapsed_seconds: float) -> ProbeResult:
    """The result by struct tcp_info. elapsed_seconds: bounds the RTT, and is the RTT when the struct is empty."""
    if len(tcp_info) < _TCP_INFO_BYTES:
        return Answered(elapsed_seconds)
    if _U32.unpack_from(tcp_info, _RETRANSMITS_AT)[0]:
        return Lost()
    kernel = _U32.unpack_from(tcp_info, _RTT_AT)[0] / 1e6
    return Answered(kernel if 0 < kernel <= elapsed_seconds else elapsed_seconds)
