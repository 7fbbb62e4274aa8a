"""`leadsman certs`: a CA of our own, the extender's certificate and kube-scheduler's, so that the two know each other.

The CA's key stays in the folder, on the operator's machine: no Secret holds it. The cluster's own CA has no part in it.
"""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from leadsman.cli.options import Options, positive_int

DEFAULT_SERVER_NAMES = (
    "leadsman-extender.leadsman.svc",
    "leadsman-extender.leadsman.svc.cluster.local",
    "localhost",
    "127.0.0.1",
)

DEFAULT_CLIENT_NAME = "kube-scheduler"

WARN_DAYS = 30

ACTIONS = ("create", "renew", "show", "secrets")


def options(add: Options) -> None:
    add.parser.add_argument(
        "action",
        choices=ACTIONS,
        metavar="{" + ",".join(ACTIONS) + "}",
        help="create: CA, server and client; renew: the same CA, new server and client; show: what expires when, exit"
        f" code 1 within {WARN_DAYS} days; secrets: Kubernetes Secrets on stdout",
    )
    add.flag("dir", "folder of the files (default leadsman-certs)", "leadsman-certs", Path, metavar="DIR")
    making = add.group("making")
    making.flag(
        "names",
        "names and addresses by which the extender is called "
        f"(default {','.join(DEFAULT_SERVER_NAMES)}; renew: as before)",
        None,
        name_list,
        metavar="NAME[,NAME]",
    )
    client = f"the client's common name (default {DEFAULT_CLIENT_NAME}; renew: as before)"
    making.flag("client-name", client, None, metavar="NAME")
    making.flag("days", "how long server and client are valid (default 365)", "365", positive_int)
    making.flag("ca-days", "how long the CA is valid (default 3650)", "3650", positive_int)
    making.parser.add_argument("--force", action="store_true", help="create: replace files that are there")
    showing = add.group("secrets")
    showing.flag("namespace", "of the extender's Secret (default leadsman)", "leadsman")
    showing.flag("scheduler-namespace", "of the scheduler's Secret (default kube-system)", "kube-system")


def main(args: argparse.Namespace) -> int:
    try:
        from leadsman.cli.certs import actions
        from leadsman.cli.certs.certificate_files import CertsError
    except ImportError as error:
        raise ValueError(f"{error.name} is missing; pip install 'leadsman[setup]'") from error
    try:
        return actions.run(args, datetime.now(UTC))
    except OSError as error:
        print(f"leadsman certs: {error.filename}: {error.strerror}", file=sys.stderr)
    except CertsError as error:
        print(f"leadsman certs: {error}", file=sys.stderr)
    return 1


def name_list(text: str) -> tuple[str, ...]:
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r}: want NAME or NAME,NAME")
    return found
