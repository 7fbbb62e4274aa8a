"""What `leadsman certs` does: create, renew, show, secrets."""

import argparse
import base64
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from leadsman.cli.certs import DEFAULT_CLIENT_NAME, DEFAULT_SERVER_NAMES, WARN_DAYS, authority
from leadsman.cli.certs.authority import CertificatePair
from leadsman.cli.certs.certificate_files import PAIR_NAMES, CertsError, load_pair, pair_path, write_pairs


def run(args: argparse.Namespace, now: datetime) -> int:
    """Does args.action. Exit code. CertsError when it would overwrite a file; OSError when it cannot write."""
    if args.action == "secrets":
        print(
            yaml.safe_dump_all(secret_manifests(args.dir, args.namespace, args.scheduler_namespace), sort_keys=False),
            end="",
        )
        return 0
    if args.action != "show":
        {"create": _create, "renew": _renew}[args.action](args, now)
    return _show(args.dir, now)


def _create(args: argparse.Namespace, now: datetime) -> None:
    ca = authority.create_ca(now, args.ca_days)
    leaves = _leaves(ca, args.names or DEFAULT_SERVER_NAMES, args.client_name or DEFAULT_CLIENT_NAME, now, args.days)
    write_pairs(args.dir, {"ca": ca, **leaves}, args.force)


def _renew(args: argparse.Namespace, now: datetime) -> None:
    """New keys and certificates with the names in the old certificates."""
    ca, server, client = (load_pair(args.dir, name) for name in PAIR_NAMES)
    names = args.names or authority.alternative_names(server.certificate)
    called = args.client_name or authority.common_name(client.certificate)
    write_pairs(args.dir, _leaves(_valid(ca, now), names, called, now, args.days), replace=True)


def secret_manifests(folder: Path, namespace: str, scheduler_namespace: str) -> Iterator[dict[str, Any]]:
    """The Secrets of extender and scheduler; neither holds the CA's key."""
    ca = load_pair(folder, "ca").certificate_pem
    yield secret("leadsman-extender-tls", namespace, "extender", load_pair(folder, "server"), ca)
    yield secret("leadsman-scheduler-tls", scheduler_namespace, "scheduler", load_pair(folder, "client"), ca)


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
    ends = {name: load_pair(folder, name).certificate.not_valid_after_utc for name in PAIR_NAMES}
    for name, end in ends.items():
        print(f"{pair_path(folder, name, 'crt')}  valid until {end:%Y-%m-%d %H:%M} UTC, {(end - now).days} days")
    return int(any(end - now < timedelta(days=WARN_DAYS) for end in ends.values()))


def secret(name: str, namespace: str, component: str, pair: CertificatePair, ca: bytes) -> dict[str, Any]:
    """The manifest of a Secret with this pair and the CA's certificate."""
    content = {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem, "ca.crt": ca}
    labels = {"name": "leadsman", "instance": "leadsman", "component": component, "part-of": "leadsman"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {f"app.kubernetes.io/{key}": value for key, value in labels.items()},
        },
        "data": {key: base64.b64encode(value).decode() for key, value in content.items()},
    }
