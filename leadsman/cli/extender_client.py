"""Fetches a page of the extender and prints it: what `leadsman explain` and `leadsman rewards` have in common."""

import argparse
import ssl
import sys
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from leadsman.cli.options import Options, existing_folder

_TIMEOUT_SECONDS = 10


def options(add: Options, json: str) -> None:
    """json: what --json shows."""
    add.flag(
        "extender",
        "the extender's URL (default http://127.0.0.1:9001)",
        "http://127.0.0.1:9001",
        _url,
        metavar="URL",
    )
    add.flag(
        "certs",
        "for an https extender: the folder that `leadsman certs` made, with its CA and a client certificate",
        None,
        existing_folder,
        metavar="DIR",
    )
    add.parser.add_argument("--json", action="store_true", help=json)


def print_page(args: argparse.Namespace, path: str) -> int:
    """Prints the page, or what is wrong. Exit code. path: with its query."""
    accept = "application/json" if args.json else "text/plain"
    request = Request(f"{args.extender}{path}", headers={"Accept": accept})
    try:
        with urlopen(request, timeout=_TIMEOUT_SECONDS, context=_tls_context(args.certs)) as answer:
            page = answer.read().decode().rstrip("\n")
    except HTTPError as error:
        print(f"leadsman {args.command}: {error.read().decode().strip()}", file=sys.stderr)
        return 1
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        print(f"leadsman {args.command}: cannot reach {args.extender}: {reason}. {_hint(args)}", file=sys.stderr)
        return 1
    print(page)
    return 0


def _hint(args: argparse.Namespace) -> str:
    if args.certs is None and args.extender.startswith("https:"):
        return "Name the folder of the extender's certificates with --certs DIR."
    return "Set the extender's address with --extender URL: https with certificates, http without."


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r}: want https://HOST:PORT or http://HOST:PORT")
    return text.rstrip("/")


def _tls_context(certs: Path | None) -> ssl.SSLContext | None:
    if certs is None:
        return None
    try:
        context = ssl.create_default_context(cafile=certs / "ca.crt")
        context.load_cert_chain(certs / "client.crt", certs / "client.key", password="")
    except OSError as error:
        raise ValueError(f"--certs {certs}: {error}; want a folder that `leadsman certs create` made") from error
    return context
