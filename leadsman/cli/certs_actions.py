"""What `leadsman certs` does: create, renew, show and secrets on files, cluster on the Secrets of a cluster.

A pair is <name>.crt and <name>.key. A key is readable by its owner alone from its first byte, and a file is replaced as
a whole or not at all. In a cluster a few objects are read and written by their names and no other, so a Role can name
them: each is applied on the server, by a request that carries its name also where it creates.
"""

import argparse
import base64
import binascii
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from cryptography.exceptions import InvalidSignature

from leadsman.cli import certificates
from leadsman.cli.certificates import CertificatePair, tls_secret
from leadsman.cli.certs import DEFAULT_CLIENT_NAME, WARN_DAYS, default_server_names
from leadsman.cli.flags import process_flags
from leadsman.kube.client import ApiClient, ApiRequest
from leadsman.kube.errors import ApiError, NotFound


def run_in_folder(args: argparse.Namespace, now: datetime) -> int:
    """Does args.action. Exit code. CertsError when it would overwrite a file; OSError when it cannot write."""
    if args.action == "secrets":
        manifests = secret_manifests(args.dir, args.namespace, args.scheduler_namespace, args.server_secret)
        print(yaml.safe_dump_all(manifests, sort_keys=False), end="")
        return 0
    if args.action != "show":
        {"create": _create, "renew": _renew}[args.action](args, now)
    return _show(args.dir, now)


def _create(args: argparse.Namespace, now: datetime) -> None:
    ca = certificates.create_ca(now, args.ca_days)
    names = args.names or default_server_names(args.namespace)
    leaves = _leaves(ca, names, args.client_name or DEFAULT_CLIENT_NAME, now, args.days)
    etcd = certificates.create_etcd_pairs(now, args.days, args.ca_days)
    write_pairs(args.dir, {"ca": ca, **leaves, **etcd}, args.force)


def _renew(args: argparse.Namespace, now: datetime) -> None:
    """New keys and certificates with the names in the old certificates."""
    ca, server, client = (load_pair(args.dir, name) for name in PAIR_NAMES)
    names = args.names or certificates.alternative_names(server.certificate)
    called = args.client_name or certificates.common_name(client.certificate)
    leaves = _leaves(_valid(ca, now), names, called, now, args.days)
    etcd = certificates.sign_etcd_pairs(_valid(load_pair(args.dir, certificates.ETCD_CA), now), now, args.days)
    write_pairs(args.dir, {**leaves, **etcd}, replace=True)


def secret_manifests(
    folder: Path, namespace: str, scheduler_namespace: str, server_secret: str
) -> Iterator[dict[str, Any]]:
    """The Secrets of extenders, scheduler and a locked etcd, and the ConfigMap of etcd's CA. None holds a CA's key."""
    ca = load_pair(folder, "ca").certificate_pem
    yield tls_secret(server_secret, namespace, "extender", load_pair(folder, "server"), ca)
    yield tls_secret("leadsman-scheduler-tls", scheduler_namespace, "scheduler", load_pair(folder, "client"), ca)
    etcd_ca, member = (load_pair(folder, name) for name in certificates.ETCD_PAIR_NAMES)
    yield from certificates.etcd_manifests(etcd_ca, member, namespace)


def _leaves(
    ca: CertificatePair, names: Sequence[str], client: str, now: datetime, days: int
) -> Mapping[str, CertificatePair]:
    try:
        return {
            "server": certificates.issue_server(ca, names, now, days),
            "client": certificates.issue_client(ca, client, now, days),
        }
    except ValueError as error:
        raise CertsError(f"--names {','.join(names)}, --client-name {client}: {error}") from error


def _valid(ca: CertificatePair, now: datetime) -> CertificatePair:
    end = ca.certificate.not_valid_after_utc
    if end <= now:
        raise CertsError(f"the CA expired on {end:%Y-%m-%d}; make another with `leadsman certs create --force`")
    return ca


def _show(folder: Path, now: datetime) -> int:
    """Prints when each certificate expires. 1 when one does within WARN_DAYS, for a cron job."""
    names = (*PAIR_NAMES, *certificates.ETCD_PAIR_NAMES)
    ends = {name: load_pair(folder, name).certificate.not_valid_after_utc for name in names}
    for name, end in ends.items():
        print(f"{pair_path(folder, name, 'crt')}  valid until {end:%Y-%m-%d %H:%M} UTC, {(end - now).days} days")
    return int(any(end - now < timedelta(days=WARN_DAYS) for end in ends.values()))


PAIR_NAMES = ("ca", "server", "client")
"""Those of extender and scheduler; etcd's are ETCD_PAIR_NAMES."""


class CertsError(Exception):
    """The command would overwrite a file, or its files are missing or do not match. The text says what to do."""


def pair_path(folder: Path, name: str, ending: str) -> Path:
    return folder / f"{name}.{ending}"


def load_pair(folder: Path, name: str) -> CertificatePair:
    """The pair of this name. CertsError when its files are missing or do not match."""
    certificate, key = pair_path(folder, name, "crt"), pair_path(folder, name, "key")
    try:
        return certificates.pair_from_pem(certificate.read_bytes(), key.read_bytes())
    except FileNotFoundError as error:
        raise CertsError(f"{error.filename}: no such file; make it with `leadsman certs create`") from error
    except ValueError as error:
        raise CertsError(f"{certificate}, {key}: {error}; want a pair that `leadsman certs create` made") from error


def write_pairs(folder: Path, pairs: Mapping[str, CertificatePair], replace: bool) -> None:
    """Writes all pairs, keys first. CertsError, with nothing written, when a file exists and `replace` is off."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = {pair_path(folder, name, "key"): (pair.key_pem, 0o600) for name, pair in pairs.items()}
    files |= {pair_path(folder, name, "crt"): (pair.certificate_pem, 0o644) for name, pair in pairs.items()}
    existing = [str(path) for path in files if path.exists()]
    if existing and not replace:
        raise CertsError(f"{', '.join(existing)} would be overwritten; use renew, another --dir, or --force")
    for path, (content, mode) in files.items():
        _replace(path, content, mode)


def _replace(target: Path, content: bytes, mode: int) -> None:
    new = target.with_name(f".{target.name}.new")
    new.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)


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
            return certificates.pair_from_pem(data["tls.crt"], data["tls.key"])
        except (KeyError, TypeError, ValueError):
            return None

    async def apply(self, manifest: Mapping[str, Any]) -> None:
        path = self._path(manifest["kind"], manifest["metadata"]["name"])
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        await self._client.send(ApiRequest("PATCH", path, query, manifest, APPLY))

    def _path(self, kind: str, name: str) -> str:
        return f"/api/v1/namespaces/{self._namespace}/{_PATH_OF_KIND[kind]}/{name}"


async def run_in_cluster(args: argparse.Namespace, now: datetime) -> int:
    """Makes what is missing or due, and says so. CertsError when the API server refuses."""
    try:
        async with ApiClient(process_flags.operator_api_access(args)) as client:
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
    secret_of = {certificates.ETCD_CA: ETCD_CA_SECRET, certificates.ETCD_MEMBER: certificates.MEMBER_SECRET}
    pairs = {name: await objects.pair(secret) for name, secret in secret_of.items()}
    due = renewed_etcd(pairs, now, args)
    if new_ca := due.get(certificates.ETCD_CA):
        await objects.apply(tls_secret(ETCD_CA_SECRET, args.namespace, "certificates", new_ca, new_ca.certificate_pem))
    valid = {name: pair for name, pair in pairs.items() if pair} | due
    ca, member = (valid[name] for name in certificates.ETCD_PAIR_NAMES)
    for manifest in certificates.etcd_manifests(ca, member, args.namespace):
        await objects.apply(manifest)
    return [(secret_of[name], pair) for name, pair in due.items()]


def renewed(
    pairs: Mapping[str, CertificatePair | None],
    names: tuple[str, ...],
    client: str,
    now: datetime,
    args: argparse.Namespace,
) -> dict[str, CertificatePair]:
    """Says which of the pairs are made again: what is missing, ends soon, or says another name or CA.

    args: days, ca_days, renew_before_days.
    """
    soon = now + timedelta(days=args.renew_before_days)
    due: dict[str, CertificatePair] = {}
    ca = pairs["ca"]
    if ca is None or ca.certificate.not_valid_after_utc <= soon:
        ca = due["ca"] = certificates.create_ca(now, args.ca_days)
    server, scheduler = pairs["server"], pairs["client"]
    if not _serves(server, ca, soon) or certificates.alternative_names(server.certificate) != names:  # type: ignore[union-attr]
        due["server"] = certificates.issue_server(ca, names, now, args.days)
    if not _serves(scheduler, ca, soon) or certificates.common_name(scheduler.certificate) != client:  # type: ignore[union-attr]
        due["client"] = certificates.issue_client(ca, client, now, args.days)
    return due


def renewed_etcd(
    pairs: Mapping[str, CertificatePair | None], now: datetime, args: argparse.Namespace
) -> dict[str, CertificatePair]:
    """As `renewed`, of etcd's CA and members."""
    soon = now + timedelta(days=args.renew_before_days)
    ca = pairs[certificates.ETCD_CA]
    if ca is None or ca.certificate.not_valid_after_utc <= soon:
        return certificates.create_etcd_pairs(now, args.days, args.ca_days)
    return {
        name: pair
        for name, pair in certificates.sign_etcd_pairs(ca, now, args.days).items()
        if not _serves(pairs[name], ca, soon) or _names(pairs[name]) != _names(pair)
    }


def _names(pair: CertificatePair | None) -> tuple[str, ...]:
    return certificates.alternative_names(pair.certificate) if pair else ()


def _serves(pair: CertificatePair | None, ca: CertificatePair, soon: datetime) -> bool:
    """Tells whether it is this CA's, and valid beyond `soon`, or for as long as the CA."""
    if pair is None:
        return False
    try:
        pair.certificate.verify_directly_issued_by(ca.certificate)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return pair.certificate.not_valid_after_utc > soon
