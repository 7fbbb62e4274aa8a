"""Does what `leadsman certs` asks: create, renew, show and secrets on files, cluster on the Secrets of a cluster.

A pair is <name>.crt and <name>.key. A key is readable by its owner alone from its first byte, and a file is replaced as
a whole or not at all. In a cluster a few objects are read and written by their names and no other, so a Role can name
them: each is applied on the server, by a request that carries its name also where it creates.
"""

import argparse
import base64
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from cryptography.exceptions import InvalidSignature
from cryptography.x509 import Certificate

from leadsman.cli import certificates
from leadsman.cli.certificates import MEMBER_NAMES, MEMBER_SECRET, PEER_USAGE, TRUST_CONFIG_MAP, CertificatePair
from leadsman.cli.certs import DEFAULT_CLIENT_NAME, WARN_DAYS, default_server_names
from leadsman.cli.files import replace_file
from leadsman.cli.flags import process_flags
from leadsman.cli.flags.options import CommandFailed
from leadsman.kube.client import ApiClient, ApiRequest
from leadsman.kube.errors import ApiError, NotFound

CA_NAMES = {"ca": "Leadsman CA", "etcd-ca": "Leadsman etcd CA"}
"""Maps each CA to its common name."""

CA_OF = {"ca": "ca", "server": "ca", "client": "ca", "etcd-ca": "etcd-ca", "etcd": "etcd-ca"}
"""Every pair → the CA that its clients or servers must chain to."""

ETCD_CA_SECRET = "leadsman-etcd-ca"

Pairs = Mapping[str, CertificatePair]
"""Certificates with their keys, by the names of CA_OF."""


class CertsError(CommandFailed):
    """The command would overwrite a file, or its files are missing or do not match; the text says what to do."""


def run_in_folder(args: argparse.Namespace, now: datetime) -> int:
    """Does args.action; returns the exit code. Raises CertsError when it would overwrite; raises OSError when it cannot
    write."""
    if args.action == "create":
        _write_pairs(args.dir, pairs_due({}, args, now, now), args.force)
    elif args.action == "renew":
        _write_pairs(args.dir, _renewed(args, now), replace=True)
    pairs = {name: load_pair(args.dir, name) for name in CA_OF}
    if args.action == "secrets":
        secrets = [_secret(name, pairs, args) for name in pairs if name not in CA_NAMES]
        print(yaml.safe_dump_all([*secrets, _trust(pairs, args)], sort_keys=False), end="")
        return 0
    ends = {name: pair.certificate.not_valid_after_utc for name, pair in pairs.items()}
    for name, end in ends.items():
        print(f"{args.dir / name}.crt  valid until {end:%Y-%m-%d %H:%M} UTC, {(end - now).days} days")
    return int(args.action == "show" and any(end - now < timedelta(days=WARN_DAYS) for end in ends.values()))


def pairs_due(present: Pairs, args: argparse.Namespace, now: datetime, soon: datetime) -> dict[str, CertificatePair]:
    """Makes the pairs that are missing, end before `soon`, or have another name or CA than they should, CAs first."""
    due = {
        name: certificates.create_ca(now, args.ca_days, common_name)
        for name, common_name in CA_NAMES.items()
        if name not in present or present[name].certificate.not_valid_after_utc <= soon
    }
    cas = {**present, **due}
    names, client = args.names or default_server_names(args.namespace), args.client_name or DEFAULT_CLIENT_NAME
    try:
        signed = {
            "server": certificates.issue_server(cas["ca"], names, now, args.days),
            "client": certificates.issue_client(cas["ca"], client, now, args.days),
            "etcd": certificates.issue(cas["etcd-ca"], "leadsman-etcd", MEMBER_NAMES, PEER_USAGE, now, args.days),
        }
    except ValueError as error:
        raise CertsError(f"--names {','.join(names)}, --client-name {client}: {error}") from error
    fine = {
        name
        for name, pair in signed.items()
        if name in present and _still_serves(present[name].certificate, pair.certificate, cas[CA_OF[name]], soon)
    }
    return due | {name: pair for name, pair in signed.items() if name not in fine}


def _still_serves(old: Certificate, new: Certificate, ca: CertificatePair, soon: datetime) -> bool:
    """Tells whether the old certificate says what the new one does, is this CA's, and does not end before `soon`."""
    try:
        old.verify_directly_issued_by(ca.certificate)
    except (InvalidSignature, ValueError, TypeError):
        return False
    says = [(certificates.common_name(each), certificates.alternative_names(each)) for each in (old, new)]
    return says[0] == says[1] and old.not_valid_after_utc > soon


def _renewed(args: argparse.Namespace, now: datetime) -> dict[str, CertificatePair]:
    """Returns all but the CAs, with the names of the old certificates where no flag gives others."""
    cas = {name: load_pair(args.dir, name) for name in CA_NAMES}
    for ca in cas.values():
        end = ca.certificate.not_valid_after_utc
        if end <= now:
            raise CertsError(f"the CA expired on {end:%Y-%m-%d}; make another with `leadsman certs create --force`")
    server, client = (load_pair(args.dir, name).certificate for name in ("server", "client"))
    args.names = args.names or certificates.alternative_names(server)
    args.client_name = args.client_name or certificates.common_name(client)
    return pairs_due(cas, args, now, now)


def load_pair(folder: Path, name: str) -> CertificatePair:
    """Loads the pair of this name. Raises CertsError when its files are missing or do not match."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    try:
        return certificates.pair_from_pem(certificate.read_bytes(), key.read_bytes())
    except FileNotFoundError as error:
        raise CertsError(f"{error.filename}: no such file; make it with `leadsman certs create`") from error
    except ValueError as error:
        raise CertsError(f"{certificate}, {key}: {error}; want a pair that `leadsman certs create` made") from error


def _write_pairs(folder: Path, pairs: Mapping[str, CertificatePair], replace: bool) -> None:
    """Writes all pairs, keys first. CertsError, with nothing written, when a file exists and `replace` is off."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = {folder / f"{name}.key": (pair.key_pem, 0o600) for name, pair in pairs.items()}
    files |= {folder / f"{name}.crt": (pair.certificate_pem, 0o644) for name, pair in pairs.items()}
    existing = [str(path) for path in files if path.exists()]
    if existing and not replace:
        raise CertsError(f"{', '.join(existing)} would be overwritten; use renew, another --dir, or --force")
    for path, (content, mode) in files.items():
        replace_file(path, content, mode)


def secrets_of(args: argparse.Namespace) -> dict[str, tuple[str, str, str]]:
    """Maps each pair to its Secret's namespace, name and component."""
    return {
        "ca": (args.namespace, "leadsman-ca", "certificates"),
        "server": (args.namespace, "leadsman-extender-tls", "extender"),
        "client": (args.scheduler_namespace, "leadsman-scheduler-tls", "scheduler"),
        "etcd-ca": (args.namespace, ETCD_CA_SECRET, "certificates"),
        "etcd": (args.namespace, MEMBER_SECRET, "etcd"),
    }


def _secret(name: str, pairs: Pairs, args: argparse.Namespace) -> dict[str, Any]:
    """Returns the Secret of a pair, with the certificate of its CA. Only a CA's own Secret has that CA's key."""
    pair, ca = pairs[name], pairs[CA_OF[name]]
    content = {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem, "ca.crt": ca.certificate_pem}
    data = {key: base64.b64encode(value).decode() for key, value in content.items()}
    return _object("Secret", *secrets_of(args)[name]) | {"type": "kubernetes.io/tls", "data": data}


def _trust(pairs: Pairs, args: argparse.Namespace) -> dict[str, Any]:
    """Returns the certificate of etcd's CA alone, for all who call etcd."""
    data = {"ca.crt": pairs["etcd-ca"].certificate_pem.decode()}
    return _object("ConfigMap", args.namespace, TRUST_CONFIG_MAP, "etcd") | {"data": data}


def _object(kind: str, namespace: str, name: str, component: str) -> dict[str, Any]:
    said = {"name": "leadsman", "instance": "leadsman", "component": component, "part-of": "leadsman"}
    labels = {f"app.kubernetes.io/{key}": value for key, value in said.items()}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace, "labels": labels}}


async def run_in_cluster(args: argparse.Namespace, now: datetime) -> int:
    """Makes what is missing or due in the cluster, and says so. Raises CertsError when the API server refuses."""
    args.scheduler_namespace = args.namespace  # The chart's job may write in its own namespace alone.
    secrets = {name: f"{namespace}/{secret}" for name, (namespace, secret, _) in secrets_of(args).items()}
    try:
        async with ApiClient(process_flags.operator_api_access(args)) as client:
            found = {name: await _read_pair(client, *each.split("/")) for name, each in secrets.items()}
            present = {name: pair for name, pair in found.items() if pair}
            due = pairs_due(present, args, now, now + timedelta(days=args.renew_before_days))
            pairs = {**present, **due}
            # CAs first: what is left undone after one is signed by the same CA the next time.
            for manifest in (*(_secret(name, pairs, args) for name in due), _trust(pairs, args)):
                await _apply(client, manifest)
    except ApiError as error:
        raise CertsError(f"Secrets in {args.namespace}: {error}") from error
    for name, pair in due.items():
        print(f"{secrets[name]} valid until {pair.certificate.not_valid_after_utc:%Y-%m-%d}")
    if not due:
        print(f"nothing is due: all are valid for more than {args.renew_before_days} days")
    return 0


async def _read_pair(client: ApiClient, namespace: str, secret: str) -> CertificatePair | None:
    """Returns the Secret's pair; None where it is absent or holds none."""
    try:
        read: dict[str, Any] = await client.get(f"/api/v1/namespaces/{namespace}/secrets/{secret}", dict)
        return certificates.pair_from_pem(*(base64.b64decode(read["data"][key]) for key in ("tls.crt", "tls.key")))
    except (NotFound, KeyError, TypeError, ValueError):
        return None


async def _apply(client: ApiClient, manifest: Mapping[str, Any]) -> None:
    metadata, plural = manifest["metadata"], f"{manifest['kind'].lower()}s"
    path = f"/api/v1/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"
    query = {"fieldManager": "leadsman-certs", "force": "true"}
    await client.send(ApiRequest("PATCH", path, query, manifest, "application/apply-patch+yaml"))
