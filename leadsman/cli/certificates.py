"""Makes keys and certificates: CAs, and what they sign. No I/O; keys are random.

ECDSA P-256 throughout. A certificate is valid from five minutes before `now`, because clocks differ between nodes, and
never longer than the CA that signed it. etcd's members have a CA of their own, which signs nothing else that a client
may show: a certificate of it makes a peer of etcd.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

CLOCK_SKEW = timedelta(minutes=5)

SERVER_USAGE, CLIENT_USAGE = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
PEER_USAGE = (SERVER_USAGE, CLIENT_USAGE)
"""The extended key usage of servers that are each other's clients."""


class CertificatePair(NamedTuple):
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def create_ca(now: datetime, days: int, common_name: str = "Leadsman CA") -> CertificatePair:
    """Makes a self-signed CA that is valid for so many days."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named(common_name)
    builder = _builder(name, key, now, now + timedelta(days=days)).issuer_name(name)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return CertificatePair(builder.sign(key, hashes.SHA256()), key)


def issue_server(
    ca: CertificatePair, names: Sequence[str], now: datetime, days: int, common_name: str = "leadsman-extender"
) -> CertificatePair:
    """Makes a server certificate. names: DNS names and addresses; raises ValueError when a certificate cannot hold
    one."""
    return issue(ca, common_name, names, (SERVER_USAGE,), now, days)


def issue_client(ca: CertificatePair, name: str, now: datetime, days: int) -> CertificatePair:
    """Makes a client certificate whose common name is `name`."""
    return issue(ca, name, (), (CLIENT_USAGE,), now, days)


def pair_from_pem(certificate_pem: bytes, key_pem: bytes) -> CertificatePair:
    """Reads the pair from PEM. Raises ValueError when one is not PEM, or the key is no EC key or not the
    certificate's."""
    certificate, key = x509.load_pem_x509_certificate(certificate_pem), load_pem_private_key(key_pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise ValueError("the key is not this certificate's")
    return CertificatePair(certificate, key)


def alternative_names(certificate: x509.Certificate) -> tuple[str, ...]:
    """Returns the certificate's DNS names and addresses, as `issue_server` takes them."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name.value) for name in found)


def common_name(certificate: x509.Certificate) -> str:
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def issue(
    ca: CertificatePair, name: str, names: Sequence[str], purposes: Sequence[ObjectIdentifier], now: datetime, days: int
) -> CertificatePair:
    """Makes a certificate of this common name for these purposes. names: as of `issue_server`."""
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + timedelta(days=days), ca.certificate.not_valid_after_utc)
    builder = _builder(_named(name), key, now, end).issuer_name(ca.certificate.subject)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    builder = builder.add_extension(issuer, critical=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(n) for n in names]), critical=False)
    return CertificatePair(builder.sign(ca.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


MOST_MEMBERS = 5
"""A certificate may name this many members: as many as the chart allows."""

MEMBER_NAMES = (
    *(f"leadsman-etcd-{number}.leadsman-etcd-peers" for number in range(MOST_MEMBERS)),
    "localhost",
    "127.0.0.1",
)
"""Names within the namespace, by which our processes call; they hold in any namespace."""

MEMBER_SECRET, TRUST_CONFIG_MAP = "leadsman-etcd-tls", "leadsman-etcd-trust"
"""The members' pair; and the CA's certificate alone, which each node's agent reads."""
