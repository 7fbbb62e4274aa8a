"""Mutual TLS: who may call, and certificates that are replaced while we run.

    protocol   TLS 1.2 or newer
    client     must show a certificate that chains to our client CA and is meant for clients
    name       the certificate's common name, or one of its alternative names (DNS, URI, IP), is exactly one of ours

A certificate is looked at when its connection is made. A name that is no longer allowed keeps its open connection until
that ends. asyncio tells nobody why a handshake failed, so the context does, each reason once a minute.
"""

import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.watched_files import WatchedFiles

_log = logging.getLogger(__name__)

MAX_FILE_BYTES = 1 << 20
"""A Secret's own limit."""

LOG_INTERVAL_SECONDS = 60.0

UseContext = Callable[[ssl.SSLContext], Awaitable[None]]


class TlsFiles(Struct, frozen=True):
    """PEM files. client_ca: what clients' certificates chain to. client_names: the names let in, compared exactly."""

    certificate: Path
    key: Path
    client_ca: Path
    client_names: frozenset[str]


class MutualTls:
    """current: the context for new connections. problem: why the files are not in use as they are now.

    The first reading raises leadsman.runtime.watched_files.UnusableFile.
    """

    def __init__(self, files: TlsFiles, clock: Callable[[], float] = time.monotonic) -> None:
        self._files, self._clock = files, clock
        self._logged_at: dict[str, float] = {}
        self._users: list[UseContext] = []
        self.problem = ProblemLog(
            _log,
            "cannot load the certificate files; the previous ones stay in use",
            "the certificate files are valid again",
            logging.ERROR,
        )
        paths = (files.certificate, files.key, files.client_ca)
        self._watched = WatchedFiles(paths, self._load, self.problem, MAX_FILE_BYTES)

    @property
    def current(self) -> ssl.SSLContext:
        return self._watched.current

    def allows_client(self, certificate: Mapping[str, Any] | None) -> bool:
        """certificate: as ssl.getpeercert() shows it. Only holders of a certificate of our CA come so far."""
        shown = certificate_names(certificate or {})
        welcome = bool(shown & self._files.client_names)
        if not welcome:
            names, allowed = ", ".join(sorted(shown)) or "nobody", ", ".join(sorted(self._files.client_names))
            self._log_limited(f"client certificate of {names} refused; allowed are {allowed} (--tls-client-name)")
        return welcome

    def on_reload(self, user: UseContext) -> None:
        """`user` gets each context that replaces the current one."""
        self._users.append(user)

    async def poll(self) -> None:
        """Reads the files if one has changed."""
        if self._watched.poll():
            await self._use(self.current)

    async def follow(self) -> None:
        """Polls until cancelled."""
        async for context in self._watched.changes():
            await self._use(context)

    async def _use(self, context: ssl.SSLContext) -> None:
        _log.info("reloaded certificates from %s", self._files.certificate)
        for user in self._users:
            await user(context)

    def _load(self, _: Sequence[bytes]) -> ssl.SSLContext:
        """OpenSSL reads the files itself: it takes certificate and key by their paths alone."""
        return server_context(self._files, self._failed)

    def _failed(self, error: ssl.SSLError) -> None:
        self._log_limited(f"TLS handshake failed: {error}")

    def _log_limited(self, text: str) -> None:
        """Once in LOG_INTERVAL_SECONDS: a caller that is refused comes again for each pod."""
        now = self._clock()
        if now - self._logged_at.get(text, -LOG_INTERVAL_SECONDS) >= LOG_INTERVAL_SECONDS:
            _log.warning("%s", text)
            self._logged_at[text] = now


def server_context(files: TlsFiles, failed: Callable[[ssl.SSLError], None] = lambda _: None) -> ssl.SSLContext:
    """failed: told why a handshake did not succeed. ValueError when one cannot serve with the files."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.sslobject_class = _observed(failed)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.verify_mode = ssl.CERT_REQUIRED
    try:
        made.load_verify_locations(files.client_ca)
        # A password, or OpenSSL asks for one on the terminal.
        made.load_cert_chain(files.certificate, files.key, password="")
    except (ssl.SSLError, OSError) as error:
        raise ValueError(f"{error}; must be a certificate, its unencrypted key and a CA, as PEM") from error
    return made


def _observed(failed: Callable[[ssl.SSLError], None]) -> type[ssl.SSLObject]:
    class Observed(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                failed(error)
                raise

    return Observed


def certificate_names(certificate: Mapping[str, Any]) -> set[str]:
    """Of an ssl.getpeercert(): the subject's common names and its alternative names."""
    common = {value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"}
    return common | {value for kind, value in certificate.get("subjectAltName", ()) if kind in _NAMES}


_NAMES = ("DNS", "URI", "IP Address")
