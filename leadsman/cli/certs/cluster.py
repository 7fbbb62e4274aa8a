"""`leadsman certs cluster`: makes the Secrets of the certificates in the cluster itself, and renews them.

It reads and writes a few objects by their names and no other, so a Role can name them: each is applied on the server, a
request that carries its name also where it creates.
"""

import argparse
import base64
import binascii
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from cryptography.exceptions import InvalidSignature

from leadsman.cli.certs import DEFAULT_CLIENT_NAME, authority, default_server_names, etcd_certificates
from leadsman.cli.certs.actions import CertsError
from leadsman.cli.certs.authority import CertificatePair
from leadsman.cli.certs.etcd_certificates import EtcdSecrets, tls_secret
from leadsman.cli.flags import api_server_flags
from leadsman.kube.client import ApiClient, ApiRequest
from leadsman.kube.errors import ApiError, NotFound

APPLY = "application/apply-patch+yaml"
FIELD_MANAGER = "leadsman-certs"

SECRET_OF = {
    "ca": "leadsman-ca",
    "server": "leadsman-extender-tls",
    "client": "leadsman-scheduler-tls",
}
_COMPONENT_OF = {"ca": "certificates", "server": "extender", "client": "scheduler"}
ETCD_CA_SECRET = "leadsman-etcd-ca"
_PATH_OF_KIND = {"Secret": "secrets", "ConfigMap": "configmaps"}


class NamedObjects:
    """Secrets and ConfigMaps of a namespace, each read and applied by its name."""

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace

    async def secret_data(self, name: str) -> Mapping[str, bytes]:
        """{} where the Secret is absent or cannot be read as one."""
        try:
            read: dict[str, Any] = await self._client.get(self._path("Secret", name), dict)
            return {key: base64.b64decode(text) for key, text in read["data"].items()}
        except (NotFound, KeyError, AttributeError, TypeError, binascii.Error):
            return {}

    async def pair(self, name: str) -> CertificatePair | None:
        """The Secret's pair; None where it is absent or holds none."""
        data = await self.secret_data(name)
        try:
            return authority.pair_from_pem(data["tls.crt"], data["tls.key"])
        except (KeyError, TypeError, ValueError):
            return None

    async def apply(self, manifest: Mapping[str, Any]) -> None:
        path = self._path(manifest["kind"], manifest["metadata"]["name"])
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        await self._client.send(ApiRequest("PATCH", path, query, manifest, APPLY))

    def _path(self, kind: str, name: str) -> str:
        return f"/api/v1/namespaces/{self._namespace}/{_PATH_OF_KIND[kind]}/{name}"


async def run(args: argparse.Namespace, now: datetime) -> int:
    """Makes what is missing or due, and says so. CertsError when the API server refuses."""
    try:
        async with ApiClient(api_server_flags.operator_settings(args)) as client:
            objects = NamedObjects(client, args.namespace)
            made = [*await _of_extender(objects, args, now), *(await _of_etcd(objects, args, now))]
    except ApiError as error:
        raise CertsError(f"Secrets in {args.namespace}: {error}") from error
    for name, pair in made:
        print(f"{args.namespace}/{name} valid until {pair.certificate.not_valid_after_utc:%Y-%m-%d}")
    if not made:
        print(f"nothing is due: all are valid for more than {args.renew_before_days} days")
    return 0


async def _of_extender(
    objects: NamedObjects, args: argparse.Namespace, now: datetime
) -> list[tuple[str, CertificatePair]]:
    secret_of = {**SECRET_OF, "server": args.server_secret}
    pairs = {name: await objects.pair(secret_of[name]) for name in SECRET_OF}
    names = args.names or default_server_names(args.namespace)
    due = renewed(pairs, names, args.client_name or DEFAULT_CLIENT_NAME, now, args)
    ca = due.get("ca") or pairs["ca"]
    assert ca
    for name, pair in due.items():
        await objects.apply(tls_secret(secret_of[name], args.namespace, _COMPONENT_OF[name], pair, ca.certificate_pem))
    return [(secret_of[name], pair) for name, pair in due.items()]


async def _of_etcd(objects: NamedObjects, args: argparse.Namespace, now: datetime) -> list[tuple[str, CertificatePair]]:
    """The CA's Secret first: what is left undone after it is signed by the same CA the next time."""
    if not args.locked_etcd:
        return []
    secret_of = {
        etcd_certificates.CA: ETCD_CA_SECRET,
        etcd_certificates.MEMBER: etcd_certificates.MEMBER_SECRET,
        etcd_certificates.ISSUER: etcd_certificates.ISSUER_SECRET,
    }
    pairs = {name: await objects.pair(secret) for name, secret in secret_of.items()}
    due = renewed_etcd(pairs, now, args)
    if new_ca := due.get(etcd_certificates.CA):
        await objects.apply(tls_secret(ETCD_CA_SECRET, args.namespace, "certificates", new_ca, new_ca.certificate_pem))
    valid = {name: pair for name, pair in pairs.items() if pair} | due
    # etcd knows the password that is there: another one would lock us out.
    password = (await objects.secret_data(etcd_certificates.ROOT_SECRET)).get("password")
    password = password or etcd_certificates.random_password()
    ca, member, issuer = (valid[name] for name in etcd_certificates.PAIR_NAMES)
    of_etcd = EtcdSecrets(ca, member, issuer, password)
    for manifest in etcd_certificates.manifests(of_etcd, args.namespace):
        await objects.apply(manifest)
    return [(secret_of[name], pair) for name, pair in due.items()]


def renewed(
    pairs: Mapping[str, CertificatePair | None],
    names: tuple[str, ...],
    client: str,
    now: datetime,
    args: argparse.Namespace,
) -> dict[str, CertificatePair]:
    """Which of the pairs are made again: what is missing, ends soon, or says another name or CA.

    args: days, ca_days, renew_before_days.
    """
    soon = now + timedelta(days=args.renew_before_days)
    due: dict[str, CertificatePair] = {}
    ca = pairs["ca"]
    if ca is None or ca.certificate.not_valid_after_utc <= soon:
        ca = due["ca"] = authority.create_ca(now, args.ca_days)
    server, scheduler = pairs["server"], pairs["client"]
    if not _serves(server, ca, soon) or authority.alternative_names(server.certificate) != names:  # type: ignore[union-attr]
        due["server"] = authority.issue_server(ca, names, now, args.days)
    if not _serves(scheduler, ca, soon) or authority.common_name(scheduler.certificate) != client:  # type: ignore[union-attr]
        due["client"] = authority.issue_client(ca, client, now, args.days)
    return due


def renewed_etcd(
    pairs: Mapping[str, CertificatePair | None], now: datetime, args: argparse.Namespace
) -> dict[str, CertificatePair]:
    """As `renewed`, of etcd's CA, members and issuer. A new password is never among it."""
    soon = now + timedelta(days=args.renew_before_days)
    ca = pairs[etcd_certificates.CA]
    if ca is None or ca.certificate.not_valid_after_utc <= soon:
        return etcd_certificates.create(now, args.days, args.ca_days)
    return {
        name: pair
        for name, pair in etcd_certificates.signed(ca, now, args.days).items()
        if not _serves(pairs[name], ca, soon) or _names(pairs[name]) != _names(pair)
    }


def _names(pair: CertificatePair | None) -> tuple[str, ...]:
    return authority.alternative_names(pair.certificate) if pair else ()


def _serves(pair: CertificatePair | None, ca: CertificatePair, soon: datetime) -> bool:
    """Whether it is this CA's, and valid beyond `soon`, or for as long as the CA."""
    if pair is None:
        return False
    try:
        pair.certificate.verify_directly_issued_by(ca.certificate)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return pair.certificate.not_valid_after_utc > soon
