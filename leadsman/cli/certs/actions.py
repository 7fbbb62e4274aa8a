"""What `leadsman certs` does: create, renew, show, secrets; and its files, <name>.crt and <name>.key for each pair.

A key is readable by its owner alone from its first byte. A file is replaced as a whole or not at all.
"""

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from leadsman.cli.certs import DEFAULT_CLIENT_NAME, WARN_DAYS, authority, default_server_names, etcd_certificates
from leadsman.cli.certs.authority import CertificatePair
from leadsman.cli.certs.etcd_certificates import EtcdSecrets, tls_secret


def run(args: argparse.Namespace, now: datetime) -> int:
    """Does args.action. Exit code. CertsError when it would overwrite a file; OSError when it cannot write."""
    if args.action == "secrets":
        manifests = secret_manifests(args.dir, args.namespace, args.scheduler_namespace, args.server_secret)
        print(yaml.safe_dump_all(manifests, sort_keys=False), end="")
        return 0
    if args.action != "show":
        {"create": _create, "renew": _renew}[args.action](args, now)
    return _show(args.dir, now)


def _create(args: argparse.Namespace, now: datetime) -> None:
    ca = authority.create_ca(now, args.ca_days)
    names = args.names or default_server_names(args.namespace)
    leaves = _leaves(ca, names, args.client_name or DEFAULT_CLIENT_NAME, now, args.days)
    etcd = etcd_certificates.create(now, args.days, args.ca_days)
    write_pairs(args.dir, {"ca": ca, **leaves, **etcd}, args.force)
    write_password(args.dir, etcd_certificates.random_password(), args.force)


def _renew(args: argparse.Namespace, now: datetime) -> None:
    """New keys and certificates with the names in the old certificates."""
    ca, server, client = (load_pair(args.dir, name) for name in PAIR_NAMES)
    names = args.names or authority.alternative_names(server.certificate)
    called = args.client_name or authority.common_name(client.certificate)
    leaves = _leaves(_valid(ca, now), names, called, now, args.days)
    etcd = etcd_certificates.signed(_valid(load_pair(args.dir, etcd_certificates.CA), now), now, args.days)
    write_pairs(args.dir, {**leaves, **etcd}, replace=True)


def secret_manifests(
    folder: Path, namespace: str, scheduler_namespace: str, server_secret: str
) -> Iterator[dict[str, Any]]:
    """The Secrets of extenders, scheduler and a locked etcd, and the ConfigMap of etcd's CA. None holds a CA's key."""
    ca = load_pair(folder, "ca").certificate_pem
    yield tls_secret(server_secret, namespace, "extender", load_pair(folder, "server"), ca)
    yield tls_secret("leadsman-scheduler-tls", scheduler_namespace, "scheduler", load_pair(folder, "client"), ca)
    etcd_ca, member, issuer = (load_pair(folder, name) for name in etcd_certificates.PAIR_NAMES)
    of_etcd = EtcdSecrets(etcd_ca, member, issuer, read_password(folder))
    yield from etcd_certificates.manifests(of_etcd, namespace)


def _leaves(
    ca: CertificatePair, names: Sequence[str], client: str, now: datetime, days: int
) -> Mapping[str, CertificatePair]:
    try:
        return {
            "server": authority.issue_server(ca, names, now, days),
            "client": authority.issue_client(ca, client, now, days),
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
    names = (*PAIR_NAMES, *etcd_certificates.PAIR_NAMES)
    ends = {name: load_pair(folder, name).certificate.not_valid_after_utc for name in names}
    for name, end in ends.items():
        print(f"{pair_path(folder, name, 'crt')}  valid until {end:%Y-%m-%d %H:%M} UTC, {(end - now).days} days")
    return int(any(end - now < timedelta(days=WARN_DAYS) for end in ends.values()))


PAIR_NAMES = ("ca", "server", "client")
"""Those of extender and scheduler; etcd's are in `etcd_certificates`."""

_PASSWORD_FILE = "etcd-root-password"


class CertsError(Exception):
    """The command would overwrite a file, or its files are missing or do not match. The text says what to do."""


def pair_path(folder: Path, name: str, ending: str) -> Path:
    return folder / f"{name}.{ending}"


def load_pair(folder: Path, name: str) -> CertificatePair:
    """The pair of this name. CertsError when its files are missing or do not match."""
    certificate, key = pair_path(folder, name, "crt"), pair_path(folder, name, "key")
    try:
        return authority.pair_from_pem(certificate.read_bytes(), key.read_bytes())
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


def read_password(folder: Path) -> bytes:
    """The password of etcd's user root. CertsError when its file is missing."""
    try:
        return (folder / _PASSWORD_FILE).read_bytes()
    except FileNotFoundError as error:
        raise CertsError(f"{error.filename}: no such file; make it with `leadsman certs renew`") from error


def write_password(folder: Path, password: bytes, replace: bool) -> None:
    """Writes the password, unless there is one and `replace` is off: etcd knows that one."""
    file = folder / _PASSWORD_FILE
    if replace or not file.exists():
        _replace(file, password, 0o600)


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
