"""Makes certificates for tests: a CA and what it signs, valid for a day, because some runs are long.

Needs `cryptography`.
"""

import datetime
import os
import ssl
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_VALID = datetime.timedelta(days=1)

_CA_KEY_USAGE = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


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
        self._key, self._name = ec.generate_private_key(ec.SECP256R1()), _named(name)
        builder = _builder(self._name, self._key).issuer_name(self._name)
        authority = x509.BasicConstraints(ca=True, path_length=None)
        # What strict verification, Python 3.13's default, asks of a CA and of what it signs (RFC 5280, 4.2.1).
        public = self._key.public_key()
        self._issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(public)
        own = (
            builder.add_extension(authority, critical=True)
            .add_extension(_CA_KEY_USAGE, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = own.public_bytes(serialization.Encoding.PEM).decode()

    def issue(self, *names: str, group: str = "") -> PemPair:
        """A certificate for a server or a client. names: hosts and addresses; the first is the common name."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(names[0], group)
        alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
        builder = _builder(subject, key).issuer_name(self._name).add_extension(alternatives, critical=False)
        certificate = builder.add_extension(self._issuer_key, critical=False).sign(self._key, hashes.SHA256())
        return PemPair(certificate.public_bytes(serialization.Encoding.PEM).decode(), key_pem(key))

    def server_context(self, *names: str, ask_client: bool = False) -> ssl.SSLContext:
        """TLS of a server with these names. ask_client: clients must show a certificate of this CA."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = self.issue(*names)
        _load(tls, pair)
        if ask_client:
            tls.load_verify_locations(cadata=self.pem)
            tls.verify_mode = ssl.CERT_REQUIRED
        return tls


def key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def _load(tls: ssl.SSLContext, pair: PemPair) -> None:
    descriptor = os.memfd_create("testbed")
    try:
        os.write(descriptor, f"{pair.certificate}{pair.key}".encode())
        tls.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _named(name: str, group: str = "") -> x509.Name:
    groups = [x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*groups, x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _VALID)
        .not_valid_after(now + _VALID)
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
