"""Certificates and root's password for a locked etcd, and the objects that carry them. No I/O.

etcd's members have a CA of their own, which signs nothing else that a client may show: a certificate of it makes a peer
of etcd.
"""

import base64
import secrets
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from leadsman.cli.certs import authority
from leadsman.cli.certs.authority import CertificatePair

MOST_MEMBERS = 5
"""As many as the chart allows."""

MEMBER_NAMES = (
    *(f"leadsman-etcd-{number}.leadsman-etcd-peers" for number in range(MOST_MEMBERS)),
    "leadsman-etcd",
    "localhost",
    "127.0.0.1",
)
ISSUER_NAMES = ("leadsman-etcd-issuer", "localhost")
"""Names within the namespace, by which our processes call; they hold in any namespace."""

CA, MEMBER, ISSUER = PAIR_NAMES = ("etcd-ca", "etcd", "etcd-issuer")
MEMBER_SECRET, ISSUER_SECRET, ROOT_SECRET = "leadsman-etcd-tls", "leadsman-etcd-issuer-tls", "leadsman-etcd-root"
TRUST_CONFIG_MAP = "leadsman-etcd-trust"
"""With the CA's certificate alone: each node's agent reads it."""


class EtcdSecrets(NamedTuple):
    """What a locked etcd needs. ca, member and issuer are pairs; root_password is that of etcd's user root."""

    ca: CertificatePair
    member: CertificatePair
    issuer: CertificatePair
    root_password: bytes


def create(now: datetime, days: int, ca_days: int) -> dict[str, CertificatePair]:
    """A CA, and what it signs, by PAIR_NAMES."""
    ca = authority.create_ca(now, ca_days, "Leadsman etcd CA")
    return {CA: ca, **signed(ca, now, days)}


def signed(ca: CertificatePair, now: datetime, days: int) -> dict[str, CertificatePair]:
    """The members' certificate, with which they are servers and each other's clients, and the issuer's."""
    return {
        MEMBER: authority.issue_peer(ca, "leadsman-etcd", MEMBER_NAMES, now, days),
        ISSUER: authority.issue_server(ca, ISSUER_NAMES, now, days, "leadsman-etcd-issuer"),
    }


def random_password() -> bytes:
    """256 random bits, in 64 characters: bcrypt reads 72 at most."""
    return secrets.token_hex(32).encode()


def manifests(of: EtcdSecrets, namespace: str) -> Iterator[dict[str, Any]]:
    """The Secrets of members and issuer, root's password, and the CA's certificate for all. None has the CA's key."""
    ca = of.ca.certificate_pem
    yield tls_secret(MEMBER_SECRET, namespace, "etcd", of.member, ca)
    yield tls_secret(ISSUER_SECRET, namespace, "etcd-issuer", of.issuer, ca)
    yield opaque_secret(ROOT_SECRET, namespace, "etcd", {"password": of.root_password})
    yield config_map(TRUST_CONFIG_MAP, namespace, "etcd", {"ca.crt": ca.decode()})


def tls_secret(name: str, namespace: str, component: str, pair: CertificatePair, ca: bytes) -> dict[str, Any]:
    """A pair, and the certificate of the CA that its clients or servers must chain to."""
    content = {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem, "ca.crt": ca}
    return _object("Secret", name, namespace, component) | {"type": "kubernetes.io/tls", "data": _encoded(content)}


def opaque_secret(name: str, namespace: str, component: str, content: Mapping[str, bytes]) -> dict[str, Any]:
    return _object("Secret", name, namespace, component) | {"type": "Opaque", "data": _encoded(content)}


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
