"""Opens sockets that notice a peer that vanished without closing its connection."""

import socket
from typing import Any

# The peer is given up after 10 + 3 * 5 s, with or without data under way.
_SOCKET_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 25_000),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


def keepalive_socket(address: Any) -> socket.socket:
    """A TCP socket with keep-alive. address: as `getaddrinfo` gives it; aiohttp's socket_factory."""
    family, kind, protocol, *_ = address
    one = socket.socket(family, kind, protocol)
    for option in _SOCKET_OPTIONS:
        one.setsockopt(*option)
    return one
