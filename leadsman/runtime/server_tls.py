"""Secures a server by TLS: who may call, and certificates that are replaced while we run.

    protocol   TLS 1.2 or newer
    client     must show a certificate that chains to our client CA and is meant for clients
    name       the certificate's common name, or one of its alternative names (DNS, URI, IP), is exactly one of ours

Without a client CA the clients prove themselves in the request. A certificate is looked at when its
connection is made. A name that is no longer allowed keeps its open connection until that ends. asyncio tells nobody why
a handshake failed, so the context does.
"""

import logging
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from prometheus_client.core import GaugeMetricFamily, Metric

from leadsman.runtime import client_tls
from leadsman.runtime.client_tls import check_server_certificate
from leadsman.runtime.log_limit import LogLimit
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.watched_files import WatchedFiles

_log = logging.getLogger(__name__)

client_log = logging.getLogger(f"{__name__}.clients")
"""The log of what clients cause, limited in rate."""

client_log.addFilter(LogLimit())

MAX_FILE_BYTES = 1 << 20
"""A Secret's own limit."""


class TlsFiles(Struct, frozen=True):
    """Names a server's PEM files. client_ca: what clients' certificates chain to; None: clients prove themselves in the
    request.
    client_names: the names let in, compared exactly.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None
    client_names: frozenset[str] = frozenset()


class ServerTls:
    """Follows a server's certificate files. current: the context for new connections. problem: why the files are not in
    use as they are now.

    What no client would accept, or what lets no client in, replaces nothing: an expired certificate or one that is not
    valid yet, another key's, only expired CAs. While the CA file stays as it is, a certificate that chained to it is
    replaced only by another one that does.

    The first reading raises leadsman.runtime.watched_files.UnusableFile.
    """

    def __init__(self, files: TlsFiles, wall_clock: Callable[[], float] = time.time) -> None:
        """wall_clock: Unix seconds, as in certificates."""
        self._files, self._wall_clock = files, wall_clock
        self._authority, self._chains = b"", False
        self.expires_at: dict[str, float] = {}
        """Maps server, client_ca, and client once one connected, to the Unix seconds at which its certificate ends."""
        self.problem = ProblemLog(
            _log,
            "cannot load the certificate files; the previous ones stay in use",
            "the certificate files are valid again",
            logging.ERROR,
        )
        paths = (files.certificate, files.key, *([files.client_ca] if files.client_ca else []))
        self._watched = WatchedFiles(paths, self._load, self.problem, MAX_FILE_BYTES)

    @property
    def current(self) -> ssl.SSLContext:
        return self._watched.current

    def allows_client(self, certificate: Mapping[str, Any] | None) -> bool:
        """Tells whether the client may call. certificate: of our CA, as ssl.getpeercert() shows it."""
        if self._files.client_ca is None:
            return True
        shown = certificate_names(certificate or {})
        welcome = bool(shown & self._files.client_names)
        if not welcome:
            names, allowed = ", ".join(sorted(shown)) or "nobody", ", ".join(sorted(self._files.client_names))
            client_log.warning("client certificate of %s refused; allowed are %s (--tls-client-name)", names, allowed)
        elif certificate and "notAfter" in certificate:
            self.expires_at["client"] = client_tls.expiry(certificate)
        return welcome

    def poll(self) -> None:
        """Reads the files again if one has changed."""
        if self._watched.poll():
            self._log_reload()

    async def follow(self) -> None:
        """Follows the files until cancelled."""
        async for _ in self._watched.changes():
            self._log_reload()

    def _log_reload(self) -> None:
        _log.info("reloaded certificates from %s", self._files.certificate)

    def _load(self, contents: Sequence[bytes]) -> ssl.SSLContext:
        """OpenSSL reads the files itself: it takes certificate and key by their paths alone."""
        files = self._files
        made = _server_context(files)
        expires_at = {"server": check_server_certificate(made, files.certificate)}
        if files.client_ca:
            authority = contents[-1]
            expires_at["client_ca"] = client_tls.check_authorities(made, files.client_ca, self._wall_clock())
            chains = client_tls.chains_to(made, authority)
            if authority == self._authority and self._chains and not chains:
                raise ValueError(f"{files.certificate} is not of the CA in {files.client_ca}, as the one in use is")
            self._authority, self._chains = authority, chains
        self.expires_at |= expires_at
        return made


def tls_metrics(tls: ServerTls) -> Iterator[Metric]:
    """Makes the metrics of the listener's certificates."""
    yield GaugeMetricFamily(
        "leadsman_tls_load_success",
        "1 when all certificate files were valid when last read, 0 while previous ones stay in use.",
        not tls.problem.text,
    )
    expires = GaugeMetricFamily(
        "leadsman_tls_certificate_expiry_timestamp_seconds",
        "Unix time at which a certificate expires: the server's own, the last of the CAs that clients chain to, that of"
        " the client that connected last.",
        labels=["certificate"],
    )
    for which, at in tls.expires_at.items():
        expires.add_metric([which], at)
    yield expires


def _server_context(files: TlsFiles) -> ssl.SSLContext:
    """Raises ValueError when one cannot serve with the files."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.sslobject_class = _Observed
    try:
        if files.client_ca:
            made.verify_mode = ssl.CERT_REQUIRED
            made.load_verify_locations(files.client_ca)
        # A password, or OpenSSL asks for one on the terminal.
        made.load_cert_chain(files.certificate, files.key, password="")
    except OSError as error:  # ssl.SSLError among them
        raise ValueError(f"{error}; must be certificates and an unencrypted key, as PEM") from error
    return made


class _Observed(ssl.SSLObject):
    """Logs why a handshake failed."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            client_log.warning("TLS handshake failed: %s", error)
            raise


def certificate_names(certificate: Mapping[str, Any]) -> set[str]:
    """Returns the subject's common names and the alternative names of an ssl.getpeercert()."""
    common = {value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"}
    return common | {value for kind, value in certificate.get("subjectAltName", ()) if kind in _NAMES}


_NAMES = ("DNS", "URI", "IP Address")
