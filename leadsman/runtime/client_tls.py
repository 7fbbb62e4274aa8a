"""Keeps the TLS of a client's new connections current, and tries certificate files before a client or server uses them.

A client's context is made again when its files change. No task is needed: who asks for the context has the files looked
at, once a second at most; open connections keep theirs. What a peer would refuse must not replace what works, so files
are tried in a handshake in memory: the standard library reads no certificate's dates, and OpenSSL's own check is what
counts. A socket with keep-alive notices a peer that vanished without closing its connection.
"""

import logging
import math
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.watched_files import POLL_SECONDS, UsableLater, WatchedFiles

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
    """Opens a TCP socket with keep-alive, as aiohttp's socket_factory. address: as `getaddrinfo` gives it."""
    family, kind, protocol, *_ = address
    one = socket.socket(family, kind, protocol)
    for option in _SOCKET_OPTIONS:
        one.setsockopt(*option)
    return one


_NOT_YET_VALID = 9
"""X509_V_ERR_CERT_NOT_YET_VALID: x509_vfy.h of OpenSSL."""


def check_server_certificate(server: ssl.SSLContext, certificate: Path) -> float:
    """Returns the Unix seconds at which the certificate that `server` shows expires. Raises ValueError when it has
    expired or is not meant for servers; raises UsableLater when it is not valid yet."""
    client = _client()
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(certificate)
    return expiry(_verify(server, client, f"{certificate}: no client would accept this certificate"))


def expiry(certificate: Mapping[str, Any]) -> float:
    """Returns the Unix seconds at which a certificate expires. certificate: as ssl.getpeercert() shows it."""
    return float(ssl.cert_time_to_seconds(certificate["notAfter"]))


def chains_to(server: ssl.SSLContext, authority: bytes) -> bool:
    """Tells whether the certificate that `server` shows chains to the CA in PEM."""
    client = _client()
    try:
        client.load_verify_locations(cadata=authority.decode("ascii"))
        _verify(server, client, "")
    except ValueError:  # UnicodeDecodeError is one
        return False
    return True


def check_authorities(context: ssl.SSLContext, file: Path | str, now: float, peers: str = "client") -> float:
    """Returns the Unix seconds at which the last of the CAs that peers must chain to expires. Raises ValueError when
    none of them is valid; raises UsableLater when one will be. now: Unix seconds."""
    authorities = context.get_ca_certs()
    unexpired = [each for each in authorities if now <= expiry(each)]
    valid = [expiry(each) for each in unexpired if ssl.cert_time_to_seconds(str(each["notBefore"])) <= now]
    if not valid:
        times = ", ".join(f"{each['notBefore']} to {each['notAfter']}" for each in authorities) or "no CA in it"
        why = f"{file}: no CA certificate in it is valid now, so no {peers} would be let in (valid: {times})"
        raise (UsableLater if unexpired else ValueError)(why)
    return max(valid)


def check_client_certificate(file: str) -> None:
    """Raises ValueError when no server would accept the certificate in PEM, with its key in the same file: it has
    expired or is not meant for clients. Raises UsableLater when it is not valid yet."""
    client, server = _client(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client.verify_mode, server.verify_mode = ssl.CERT_NONE, ssl.CERT_REQUIRED
    server.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    server.load_verify_locations(file)
    for each in (client, server):
        each.load_cert_chain(file)
    _verify(server, client, "no server would accept this client certificate", by_server=True)


def _client() -> ssl.SSLContext:
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    return client


def _verify(server: ssl.SSLContext, client: ssl.SSLContext, what: str, by_server: bool = False) -> Mapping[str, Any]:
    """Makes a handshake up to the point where the client has checked the server, or also the server the client. Returns
    the server's certificate as the client sees it: empty unless the client verifies it."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    asking = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    unfinished = [asking, answering] if by_server else [asking]
    for _ in range(4):
        for side in (asking, answering):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                kind = UsableLater if error.verify_code == _NOT_YET_VALID else ValueError
                raise kind(f"{what}: {error.verify_message}") from error
            if side in unfinished:
                unfinished.remove(side)
            if not unfinished:
                return asking.getpeercert() or {}
    raise ValueError(f"{what}: the handshake does not end")


_log = logging.getLogger(__name__)

_MAX_FILE_BYTES = 1 << 20

TlsSetting = ssl.SSLContext | bool
"""The TLS of a connection, as aiohttp takes it. True: its own, of the system's CAs; so it is for plain HTTP, which has
no context."""


class ClientTls:
    """Follows a client's certificate files. current: for new connections. problem: why the files as they are now are
    not in use.

    What cannot work replaces nothing: files that are no PEM or do not fit together, an expired certificate. A CA that
    is no longer in its file is no longer trusted.
    """

    def __init__(
        self,
        server: str,
        files: Sequence[Path],
        first: TlsSetting,
        renew: Callable[[], TlsSetting],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """server: its name, for the log. first: in use until a file changes. renew: made of the files as they are then;
        raises ValueError when no connection could be made with it. clock: monotonic seconds."""
        self._first, self._renew, self._clock = [first], renew, clock
        self._next_poll = clock() + POLL_SECONDS if files else math.inf
        self.problem = ProblemLog(
            _log,
            f"cannot use the TLS files of connections to {server}; those loaded before stay in use",
            f"the TLS files of connections to {server} can be used again",
            logging.ERROR,
        )
        self._watched = WatchedFiles(files, self._make, self.problem, _MAX_FILE_BYTES)

    @property
    def current(self) -> TlsSetting:
        if self._clock() >= self._next_poll:
            self._next_poll = self._clock() + POLL_SECONDS
            if self._watched.poll():
                _log.info("reloaded TLS files for new connections: %s", ", ".join(map(str, self._watched.paths)))
        return self._watched.current

    def _make(self, _: Sequence[bytes]) -> TlsSetting:
        """OpenSSL reads the files itself."""
        return self._first.pop() if self._first else self._renew()
