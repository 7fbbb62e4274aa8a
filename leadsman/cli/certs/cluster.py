"""`leadsman certs cluster`: makes the Secrets of the certificates in the cluster itself, and renews them.

It reads and writes three Secrets by their names and no other, so a Role can name them: each is applied on the server, a
request that carries its name also where it creates.
"""

import argparse
import base64
import binascii
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from cryptography.exceptions import InvalidSignature

from leadsman.cli.certs import DEFAULT_CLIENT_NAME, authority
from leadsman.cli.certs.actions import secret
from leadsman.cli.certs.authority import CertificatePair
from leadsman.cli.certs.certificate_files import CertsError
from leadsman.cli.options import api_access
from leadsman.kube.client import ApiClient, ApiRequest
from leadsman.kube.errors import ApiError, NotFound

APPLY = "application/apply-patch+yaml"
FIELD_MANAGER = "leadsman-certs"

SECRET_OF = {"ca": "leadsman-ca", "server": "leadsman-extender-tls", "client": "leadsman-scheduler-tls"}
_COMPONENT_OF = {"ca": "certificates", "server": "extender", "client": "scheduler"}


async def run(args: argparse.Namespace, now: datetime) -> int:
    """Makes what is missing or due, and says so. CertsError when the API server refuses."""
    secret_of = {**SECRET_OF, "server": args.server_secret}
    names = args.names or default_names(args.namespace)
    try:
        async with ApiClient(api_access(args)) as client:
            pairs = {name: await _read(client, args.namespace, secret_of[name]) for name in SECRET_OF}
            due = renewed(pairs, names, args.client_name or DEFAULT_CLIENT_NAME, now, args)
            ca = due.get("ca") or pairs["ca"]
            assert ca
            for name, pair in due.items():
                body = secret(secret_of[name], args.namespace, _COMPONENT_OF[name], pair, ca.certificate_pem)
                path = f"{_path(args.namespace)}/{secret_of[name]}"
                query = {"fieldManager": FIELD_MANAGER, "force": "true"}
                await client.send(ApiRequest("PATCH", path, query, body, APPLY))
                print(f"{args.namespace}/{secret_of[name]} valid until {pair.certificate.not_valid_after_utc:%Y-%m-%d}")
    except ApiError as error:
        raise CertsError(f"Secrets in {args.namespace}: {error}") from error
    if not due:
        print(f"nothing is due: all are valid for more than {args.renew_before_days} days")
    return 0


def default_names(namespace: str) -> tuple[str, ...]:
    service = f"leadsman-extender.{namespace}.svc"
    return (service, f"{service}.cluster.local", "localhost", "127.0.0.1")


def renewed(
    pairs: Mapping[str, CertificatePair | None],
    names: tuple[str, ...],
    client: str,
    now: datetime,
    args: argparse.Namespace,
) -> dict[str, CertificatePair]:
    """Which of `ca`, `server` and `client` are made again: what is missing, ends soon, or says another name or CA.

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


def _serves(pair: CertificatePair | None, ca: CertificatePair, soon: datetime) -> bool:
    """Whether it is this CA's, and valid beyond `soon`, or for as long as the CA."""
    if pair is None:
        return False
    try:
        pair.certificate.verify_directly_issued_by(ca.certificate)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return pair.certificate.not_valid_after_utc > soon


async def _read(client: ApiClient, namespace: str, name: str) -> CertificatePair | None:
    """The Secret's pair; None where it is absent or holds none."""
    try:
        found: dict[str, Any] = await client.get(f"{_path(namespace)}/{name}", dict)
        certificate, key = (base64.b64decode(found["data"][field]) for field in ("tls.crt", "tls.key"))
        return authority.pair_from_pem(certificate, key)
    except (NotFound, KeyError, TypeError, ValueError, binascii.Error):
        return None


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/secrets"
