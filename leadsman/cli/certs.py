"""`leadsman certs`: create the certificates that extender and kube-scheduler use for mutual TLS, and those of etcd.

Each CA's key stays in the folder, on the operator's machine. No Secret holds it, but where the chart's job makes them
all in the cluster (`cluster`). The cluster's own CA has no part in it.
"""

import argparse
import asyncio
from datetime import UTC, datetime
from pathlib import Path

from leadsman.cli.flags import process_flags
from leadsman.cli.flags.options import CommandFailed, Options
from leadsman.cli.flags.values import namespace_name, server_names


def default_server_names(namespace: str) -> tuple[str, ...]:
    """Returns the names by which extenders are called."""
    service = f"leadsman-extender.{namespace}.svc"
    return (service, f"{service}.cluster.local", "localhost", "127.0.0.1")


DEFAULT_CLIENT_NAME = "kube-scheduler"

WARN_DAYS = 30

ACTIONS = ("create", "renew", "show", "secrets", "cluster")


def options(add: Options) -> None:
    add.parser.add_argument(
        "action",
        choices=ACTIONS,
        metavar="{" + ",".join(ACTIONS) + "}",
        help="create: make a CA, the certificates of extenders and kube-scheduler, and those of etcd; renew: make the"
        " certificates again, from the same CAs; show: print when each expires, exit with 1 when one does within"
        f" {WARN_DAYS} days; secrets: print Kubernetes Secrets; cluster: make or renew these Secrets and the CA's in"
        " --namespace, as the chart's job does",
    )
    add.argument("dir", "folder of the files", "leadsman-certs", Path, metavar="DIR")
    making = add.group("making")
    making.argument(
        "names",
        "DNS names and addresses at which clients reach the extender "
        "(default: those of its Services in --namespace, localhost and 127.0.0.1; renew: those of the old certificate)",
        None,
        server_names,
    )
    client = f"the client's common name (default {DEFAULT_CLIENT_NAME}; renew: the old one)"
    making.argument("client-name", client, None, metavar="NAME")
    making.argument("days", "validity of a certificate", 365)
    making.argument("ca-days", "validity of a CA", 3650)
    making.parser.add_argument("--force", action="store_true", help="create: replace existing files")
    showing = add.group("secrets and cluster")
    showing.argument(
        "namespace",
        "namespace of the extender's and etcd's Secrets; create: of its Services too",
        "leadsman",
        namespace_name,
    )
    showing.argument("scheduler-namespace", "namespace of the scheduler's Secret", "kube-system", namespace_name)
    showing.argument("renew-before-days", "cluster: renew what ends within so many days", 30)
    process_flags.operator_api_options(add)


def main(args: argparse.Namespace) -> int:
    try:
        from leadsman.cli import certs_actions
    except ImportError as error:
        raise ValueError(f"the package {error.name} is missing; run pip install 'leadsman[setup]'") from error
    try:
        if args.action == "cluster":
            return asyncio.run(certs_actions.run_in_cluster(args, datetime.now(UTC)))
        return certs_actions.run_in_folder(args, datetime.now(UTC))
    except OSError as error:
        raise CommandFailed(f"{error.filename}: {error.strerror}") from error
