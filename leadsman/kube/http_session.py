"""The HTTP session of an ApiAccess, whose sockets notice a vanished peer, and its TLS, which follows the files."""

import contextlib
import logging
import os
import ssl
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import aiohttp

from leadsman.kube.access import ApiAccess, ApiAccessError
from leadsman.kube.errors import NotLeader
from leadsman.runtime.certificate_check import check_authorities, check_client_certificate
from leadsman.runtime.client_tls import ClientTls, TlsSetting
from leadsman.runtime.keepalive import keepalive_socket
from leadsman.runtime.redaction import hide_credentials

log = logging.getLogger(__name__)


class _FencedConnector(aiohttp.TCPConnector):
    """Asks `may_write` once a write has its connection, right before it is sent.

    To wait for a free connection or for TLS may take longer than a lead lasts, most of all in a process that froze.
    """

    def __init__(self, may_write: Callable[[], bool], **settings: Any) -> None:
        super().__init__(**settings)
        self._may_write = may_write

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109
    ) -> aiohttp.connector.Connection:
        connection = await super().connect(req, traces, timeout)
        if req.method != "GET" and not self._may_write():
            connection.release()
            raise NotLeader(f"{req.method} {req.url.path} was not sent: another replica may lead by now")
        return connection


def open_session(connections: int = 32, may_write: Callable[[], bool] = lambda: True) -> aiohttp.ClientSession:
    """Opens a session inside a running loop; close it. Each request brings its TLS setting (`follow_tls`).

    connections: most that are open at once. may_write: NotLeader instead of a request that is no GET when it says no.
    """
    return aiohttp.ClientSession(
        connector=_FencedConnector(may_write, socket_factory=keepalive_socket, limit=connections),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
    )


def follow_tls(access: ApiAccess) -> ClientTls:
    """The TLS of connections to the API server. ApiAccessError when the files cannot be used."""
    files = access.tls_files if access.read_again and access.url.startswith("https://") else ()
    return ClientTls(hide_credentials(access.url), files, _ssl_context(access), partial(_renewed_context, access))


def _renewed_context(access: ApiAccess) -> TlsSetting:
    """ValueError when the API server would not be believed, or would not believe us."""
    newest = access.read_again() if access.read_again else access
    made = _ssl_context(newest)
    if newest.ca and isinstance(made, ssl.SSLContext) and made.get_ca_certs():  # None is there of a pinned certificate.
        check_authorities(made, "the CA", time.time(), "server")
    if newest.certificate:
        with _as_file(newest.certificate + "\n" + newest.key) as path:
            check_client_certificate(path)
    return made


def _ssl_context(access: ApiAccess) -> TlsSetting:
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
    log.warning(
        "TLS certificate of %s is not verified because the kubeconfig sets insecure-skip-tls-verify; "
        "set certificate-authority instead",
        url,
    )
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    return tls


def _load_client_certificate(tls: ssl.SSLContext, access: ApiAccess) -> None:
    with _as_file(access.certificate + "\n" + access.key) as path:
        tls.load_cert_chain(path)


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """A path to the text, in memory: OpenSSL reads keys only from files, and a key must not be on a disk."""
    descriptor = os.memfd_create("leadsman")
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
