"""Makes keys and certificates: CAs, what they sign, and the objects that carry them. No I/O; keys are random.

ECDSA P-256 throughout. A certificate is valid from five minutes before `now`, because clocks differ between nodes, and
never longer than the CA that signed it. etcd's members have a CA of their own, which signs nothing else that a client
may show: a certificate of it makes a peer of etcd.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

CLOCK_SKEW = timedelta(minutes=5)

SERVER_USAGE, CLIENT_USAGE = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


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
    """A self-signed CA that is valid for so many days."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named(common_name)
    builder = _builder(name, key, now, now + timedelta(days=days)).issuer_name(name)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return CertificatePair(builder.sign(key, hashes.SHA256()), key)


def issue_server(
    ca: CertificatePair, names: Sequence[str], now: datetime, days: int, common_name: str = "leadsman-extender"
) -> CertificatePair:
    """A server certificate. names: DNS names and addresses; ValueError when a certificate cannot hold one."""
    return _issued(ca, common_name, names, (SERVER_USAGE,), now, days)


def issue_peer(
    ca: CertificatePair, common_name: str, names: Sequence[str], now: datetime, days: int
) -> CertificatePair:
    """A certificate of servers that are each other's clients. names: as of `issue_server`."""
    return _issued(ca, common_name, names, (SERVER_USAGE, CLIENT_USAGE), now, days)


def issue_client(ca: CertificatePair, name: str, now: datetime, days: int) -> CertificatePair:
    """A client certificate whose common name is `name`."""
    return _issued(ca, name, (), (CLIENT_USAGE,), now, days)


def pair_from_pem(certificate_pem: bytes, key_pem: bytes) -> CertificatePair:
    """The pair in PEM. ValueError when one is not PEM, or the key is no EC key or not the certificate's."""
    certificate, key = x509.load_pem_x509_certificate(certificate_pem), load_pem_private_key(key_pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise ValueError("the key is not this certificate's")
    return CertificatePair(certificate, key)


def alternative_names(certificate: x509.Certificate) -> tuple[str, ...]:
    """The certificate's DNS names and addresses, as `issue_server` takes them."""
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return tuple(str(name.value) for name in found)


def common_name(certificate: x509.Certificate) -> str:
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def _issued(
    ca: CertificatePair,
    name: str,
    names: Sequence[str],
    purposes: Sequence[ObjectIdentifier],
    now: datetime,
    days: int,
) -> CertificatePair:
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
"""As many as the chart allows."""

MEMBER_NAMES = (
    *(f"leadsman-etcd-{number}.leadsman-etcd-peers" for number in range(MOST_MEMBERS)),
    "localhost",
    "127.0.0.1",
)
"""Names within the namespace, by which our processes call; they hold in any namespace."""

ETCD_CA, ETCD_MEMBER = ETCD_PAIR_NAMES = ("etcd-ca", "etcd")
MEMBER_SECRET = "leadsman-etcd-tls"
TRUST_CONFIG_MAP = "leadsman-etcd-trust"
"""With the CA's certificate alone: each node's agent reads it."""


def create_etcd_pairs(now: datetime, days: int, ca_days: int) -> dict[str, CertificatePair]:
    """A CA, and what it signs, by PAIR_NAMES."""
    ca = create_ca(now, ca_days, "Leadsman etcd CA")
    return {ETCD_CA: ca, **sign_etcd_pairs(ca, now, days)}


def sign_etcd_pairs(ca: CertificatePair, now: datetime, days: int) -> dict[str, CertificatePair]:
    """The members' certificate, with which they are servers and each other's clients, and the issuer's."""
    return {
        ETCD_MEMBER: issue_peer(ca, "leadsman-etcd", MEMBER_NAMES, now, days),
    }


def etcd_manifests(ca: CertificatePair, member: CertificatePair, namespace: str) -> Iterator[dict[str, Any]]:
    """The members' Secret, and the CA's certificate for all. None has the CA's key."""
    yield tls_secret(MEMBER_SECRET, namespace, "etcd", member, ca.certificate_pem)
    yield config_map(TRUST_CONFIG_MAP, namespace, "etcd", {"ca.crt": ca.certificate_pem.decode()})


def tls_secret(name: str, namespace: str, component: str, pair: CertificatePair, ca: bytes) -> dict[str, Any]:
    """A pair, and the certificate of the CA that its clients or servers must chain to."""
    content = {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem, "ca.crt": ca}
    return _object("Secret", name, namespace, component) | {"type": "kubernetes.io/tls", "data": _encoded(content)}


def config_map(name: str, namespace: str, component: str, content: Mapping[str, str]) -> dict[str, Any]:
    return _object("ConfigMap", name, namespace, component) | {"data": dict(content)}


def _encoded(content: Mapping[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in content.items()}


def _object(kind: str, name: str, namespace: str, component: str) -> dict[str, Any]:
    labels = {"name": "leadsman", "instance": "leadsman", "component": component, "part-of": "leadsman"}
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {f"app.kubernetes.io/{key}": value for key, value in labels.items()},
        },
    }
