"""`leadsman explain`: ask the extender why a pod went where it went."""

import argparse
import ssl
import sys
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from leadsman.options import Options, existing_folder

_TIMEOUT_SECONDS = 10


def options(add: Options) -> None:
    add.parser.add_argument("pod", help="NAMESPACE/NAME, or NAME in the namespace default")
    add.flag("extender", "the extender's URL (default http://127.0.0.1:9001)", "http://127.0.0.1:9001", metavar="URL")
    certs = "folder that `leadsman certs` made, for an https extender: its CA, and the client to ask as"
    add.flag("certs", certs, None, existing_folder, metavar="DIR")
    add.parser.add_argument("--json", action="store_true", help="every node and number, as JSON")


def main(args: argparse.Namespace) -> int:
    pod = args.pod if "/" in args.pod else f"default/{args.pod}"
    accept = "application/json" if args.json else "text/plain"
    request = Request(f"{args.extender.rstrip('/')}/explain?pod={quote(pod)}", headers={"Accept": accept})
    try:
        with urlopen(request, timeout=_TIMEOUT_SECONDS, context=_context(args.certs)) as answer:
            print(answer.read().decode().rstrip("\n"))
            return 0
    except HTTPError as error:
        print(f"leadsman explain: {error.read().decode().strip()}", file=sys.stderr)
    except (URLError, TimeoutError) as error:
        reason = getattr(error, "reason", error)
        print(
            f"leadsman explain: no extender at {args.extender}: {reason}. Name it with --extender URL.", file=sys.stderr
        )
    return 1


def _context(certs: Path | None) -> ssl.SSLContext | None:
    if certs is None:
        return None
    try:
        context = ssl.create_default_context(cafile=certs / "ca.crt")
        context.load_cert_chain(certs / "client.crt", certs / "client.key", password="")
    except OSError as error:
        raise ValueError(f"--certs {certs}: {error}; want a folder that `leadsman certs create` made") from error
    return context
