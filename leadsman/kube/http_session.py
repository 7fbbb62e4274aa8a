"""The HTTP session that an Access stands for: TLS, who we are, and lines that notice a vanished peer."""

import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import aiohttp

from leadsman.kube.access import ApiAccess, ApiAccessError

log = logging.getLogger(__name__)

# A peer that vanished without a word is noticed after 10 + 3 * 5 s, with or without data under way.
_SOCKET_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 25_000),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


def open_session(access: ApiAccess, connections: int = 32) -> aiohttp.ClientSession:
    """Inside a running loop; close it. connections: at most so many at once. ApiAccessError for unusable TLS files."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=_ssl_context(access), socket_factory=_keepalive_socket, limit=connections),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
    )


def _ssl_context(access: ApiAccess) -> ssl.SSLContext | bool:
    if not access.url.startswith("https://"):
        return True
    try:
        tls = ssl.create_default_context(cadata=access.ca or None)
        if access.certificate:
            _load_client_certificate(tls, access)
    except (ssl.SSLError, ValueError) as error:
        raise ApiAccessError(
            f"API server {access.url}: CA, client certificate or key cannot be used: {error}"
        ) from error
    return _without_verification(tls, access.url) if access.insecure else tls


def _without_verification(tls: ssl.SSLContext, url: str) -> ssl.SSLContext:
    log.warning("the certificate of %s is not verified, as insecure-skip-tls-verify asks", url)
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    return tls


def _load_client_certificate(tls: ssl.SSLContext, access: ApiAccess) -> None:
    with _as_file(access.certificate + "\n" + access.key) as path:
        tls.load_cert_chain(path)


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """A path to the text. In memory, as OpenSSL reads keys only from files and a key belongs on no disk."""
    descriptor = os.memfd_create("leadsman")
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _keepalive_socket(address: Any) -> socket.socket:
    """address: as `getaddrinfo` gives it."""
    family, kind, protocol, *_ = address
    one = socket.socket(family, kind, protocol)
    for option in _SOCKET_OPTIONS:
        one.setsockopt(*option)
    return one
