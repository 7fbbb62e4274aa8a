"""TLS of a server whose clients show no certificate: they prove themselves in the request."""

import logging
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from leadsman.runtime.certificate_check import check_server_certificate
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.watched_files import WatchedFiles

_log = logging.getLogger(__name__)

_MAX_FILE_BYTES = 1 << 20


class ListenerTls(Protocol):
    """What a listener needs of its TLS. current: the context for new connections."""

    @property
    def current(self) -> ssl.SSLContext: ...

    def allows_client(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a client that has ended the handshake may go on."""


class ServerTls:
    """A certificate and its key, in PEM, read again when they change. TLS 1.2 or newer.

    The first reading raises leadsman.runtime.watched_files.UnusableFile.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate, self._key = certificate, key
        problem = ProblemLog(
            _log,
            "cannot load the certificate files; the previous ones stay in use",
            "the certificate files are valid again",
            logging.ERROR,
        )
        self._watched = WatchedFiles((certificate, key), self._load, problem, _MAX_FILE_BYTES)

    @property
    def current(self) -> ssl.SSLContext:
        return self._watched.current

    def allows_client(self, _: Mapping[str, Any] | None) -> bool:
        return True

    async def follow(self) -> None:
        """Reads the files when they change, until cancelled."""
        async for _ in self._watched.changes():
            _log.info("reloaded certificates from %s", self._certificate)

    def _load(self, _: Sequence[bytes]) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            made.load_cert_chain(self._certificate, self._key, password="")
        except (ssl.SSLError, OSError) as error:
            raise ValueError(f"{error}; must be a certificate and its unencrypted key, as PEM") from error
        check_server_certificate(made, self._certificate)
        return made
