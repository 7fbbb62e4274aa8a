"""Connections of strangers: to any port, silent or with a few bytes."""

import contextlib
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit


@contextlib.contextmanager
def strangers(url: str, count: int, first_bytes: bytes = b"") -> Iterator[None]:
    """Connections that send `first_bytes` and then nothing."""
    address = urlsplit(url)
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            sock = stack.enter_context(socket.create_connection((address.hostname, address.port), timeout=10))
            with contextlib.suppress(OSError):
                sock.sendall(first_bytes)
        yield
