"""Certificates for tests, made as `leadsman certs` makes them: a CA and what it signs, valid for a day."""

import os
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from leadsman.cli import certificates


class PemPair(NamedTuple):
    """A certificate and its key, in PEM."""

    certificate: str
    key: str

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Writes <name>.crt and <name>.key, which only the owner may read."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_text(self.certificate)
        key.touch(mode=0o600)
        key.write_text(self.key)
        return certificate, key


class CertificateAuthority:
    """A self-signed CA. pem: its certificate."""

    def __init__(self, name: str = "testbed") -> None:
        self._pair = certificates.create_ca(datetime.now(UTC), 1, name)
        self.pem = self._pair.certificate_pem.decode()

    def issue(self, *names: str) -> PemPair:
        """A certificate for a server or a client. names: hosts and addresses; the first is the common name."""
        made = certificates.issue(self._pair, names[0], names, certificates.PEER_USAGE, datetime.now(UTC), 1)
        return PemPair(made.certificate_pem.decode(), made.key_pem.decode())

    def server_context(self, *names: str, ask_client: bool = False) -> ssl.SSLContext:
        """TLS of a server with these names. ask_client: clients must show a certificate of this CA."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _load(tls, self.issue(*names))
        if ask_client:
            tls.load_verify_locations(cadata=self.pem)
            tls.verify_mode = ssl.CERT_REQUIRED
        return tls


def _load(tls: ssl.SSLContext, pair: PemPair) -> None:
    descriptor = os.memfd_create("testbed")
    try:
        os.write(descriptor, f"{pair.certificate}{pair.key}".encode())
        tls.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
