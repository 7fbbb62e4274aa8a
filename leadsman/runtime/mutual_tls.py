"""Mutual TLS: who may call, and certificates that are replaced while we run.

    protocol   TLS 1.2 or newer
    client     must show a certificate that chains to our client CA and is meant for clients
    name       the certificate's common name, or one of its alternative names (DNS, URI, IP), is exactly one of ours

A certificate is looked at when its connection is made. A name that is no longer allowed keeps its open connection until
that ends. asyncio tells nobody why a handshake failed, so the context does, each reason once a minute.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

_log = logging.getLogger(__name__)

POLL_SECONDS = 1.0

LOG_INTERVAL_SECONDS = 60.0

UseContext = Callable[[ssl.SSLContext], Awaitable[None]]


class TlsUnusable(ValueError):
    """A file is missing, is no PEM, or certificate and key do not fit together. Give files that do."""


class TlsFiles(Struct, frozen=True):
    """PEM files. client_ca: what clients' certificates chain to. client_names: the names let in, compared exactly."""

    certificate: Path
    key: Path
    client_ca: Path
    client_names: frozenset[str]


class MutualTls:
    """The context for new connections. The first reading raises TlsUnusable; later ones keep what worked."""

    def __init__(self, files: TlsFiles, clock: Callable[[], float] = time.monotonic) -> None:
        self._files, self._clock = files, clock
        self._logged_at: dict[str, float] = {}
        self._seen = _file_versions(files)
        self._users: list[UseContext] = []
        self.current = server_context(files, self._failed)
        self.problem = ""

    def allows_client(self, certificate: Mapping[str, Any] | None) -> bool:
        """certificate: as ssl.getpeercert() shows it. Only holders of a certificate of our CA come so far."""
        shown = certificate_names(certificate or {})
        welcome = bool(shown & self._files.client_names)
        if not welcome:
            wanted = ", ".join(sorted(self._files.client_names))
            self._log_limited(f"client certificate of {', '.join(sorted(shown)) or 'nobody'} refused; want {wanted}")
        return welcome

    def on_reload(self, user: UseContext) -> None:
        """`user` gets each context that replaces the current one."""
        self._users.append(user)

    async def poll(self) -> None:
        """Reads the files if one has changed. `problem` says why the new ones are not in use."""
        try:
            seen = _file_versions(self._files)
            if seen == self._seen and not self.problem:
                return
            self.current, self._seen, self.problem = server_context(self._files, self._failed), seen, ""
        except TlsUnusable as error:
            if self.problem != str(error):
                _log.error("certificate refused, the one before it stays: %s", error)
            self.problem = str(error)
            return
        _log.info("certificates read anew from %s", self._files.certificate)
        for user in self._users:
            await user(self.current)

    async def follow(self) -> None:
        """Polls until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await self.poll()

    def _failed(self, error: ssl.SSLError) -> None:
        self._log_limited(f"TLS handshake failed: {error}")

    def _log_limited(self, text: str) -> None:
        """Once in LOG_INTERVAL_SECONDS: a caller that is refused comes again for each pod."""
        now = self._clock()
        if now - self._logged_at.get(text, -LOG_INTERVAL_SECONDS) >= LOG_INTERVAL_SECONDS:
            _log.warning("%s", text)
            self._logged_at[text] = now


def server_context(files: TlsFiles, failed: Callable[[ssl.SSLError], None] = lambda _: None) -> ssl.SSLContext:
    """failed: hears why a handshake did not succeed. TlsUnusable when the files are none to serve with."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.sslobject_class = _observed(failed)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.verify_mode = ssl.CERT_REQUIRED
    try:
        made.load_verify_locations(files.client_ca)
        # A password, or OpenSSL asks for one on the terminal.
        made.load_cert_chain(files.certificate, files.key, password="")
    except (ssl.SSLError, OSError) as error:
        shown = f"{files.certificate}, {files.key}, {files.client_ca}"
        raise TlsUnusable(f"{shown}: {error}; want a certificate, its unencrypted key and a CA, as PEM") from error
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


def _file_versions(files: TlsFiles) -> tuple[tuple[int, int, int], ...]:
    """A Secret changes by swapping a symlink, so the inode counts as well as time and size."""
    paths = (files.certificate, files.key, files.client_ca)
    try:
        stats = [path.stat() for path in paths]
    except OSError as error:
        raise TlsUnusable(f"{error.filename}: {error.strerror}; want a PEM file that can be read") from error
    return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in stats)
