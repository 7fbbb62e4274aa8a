"""Asks the extender for a page: the flags, the call, and what is said when it fails."""

import argparse
import contextlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

import msgspec

from extender.api.contract.common import ErrorBody
from leadsman.cli import kubectl, output
from leadsman.cli.command_failed import CommandFailed
from leadsman.cli.extender_replicas import Replica, replicas
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import THROUGH_KUBECTL, existing_folder

_TIMEOUT_SECONDS = 10


class ExtenderError(CommandFailed):
    """The extender cannot be asked; says why and what to do."""


class PageRefused(ExtenderError):
    """The extender was reached and says why it has no such page."""


def options(add: Options, json: str) -> None:
    """json: what -o json shows."""
    add.flag(
        "extender",
        f"the extender's URL, or {THROUGH_KUBECTL} to find it in the cluster (default {{default}};"
        f" {THROUGH_KUBECTL} as a plugin of kubectl)",
        "http://127.0.0.1:9001",
        _url,
        metavar="URL",
    )
    add.flag(
        "certs",
        "for an https extender: the folder that `leadsman certs` made, with its CA and a client certificate",
        None,
        existing_folder,
    )
    kubectl.options(add)
    output.options(add, json=json)


class ExtenderClient:
    """Asks one replica after another. All have the same state; a decision is kept by the one that made it."""

    def __init__(self, asked: Sequence[Replica], hint: str) -> None:
        self._replicas, self._hint = asked, hint

    def text(self, path: str, yaml: bytes | None = None) -> str:
        """yaml: sent as the body of a POST; None: it is a GET."""
        return self._get(path, "text/plain", yaml).decode().rstrip("\n") + "\n"

    def json(self, path: str, yaml: bytes | None = None) -> Any:
        return msgspec.json.decode(self._get(path, "application/json", yaml))

    def json_of_all(self, path: str, identity: Callable[[Any], Hashable]) -> list[Any]:
        """The lists of all replicas as one, each element once: a replica may answer for others too.

        ExtenderError when one cannot be asked.
        """
        lists = [msgspec.json.decode(self._ask(each, path, "application/json")) for each in self._replicas]
        return list({identity(element): element for one in lists for element in one}.values())

    def _get(self, path: str, accept: str, yaml: bytes | None) -> bytes:
        """path: with its query. ExtenderError when no replica has it; a refusal says more than a failed connection."""
        failed = list[ExtenderError]()
        for replica in self._replicas:
            try:
                return self._ask(replica, path, accept, yaml)
            except ExtenderError as error:
                failed.append(error)
        raise next((error for error in failed if isinstance(error, PageRefused)), failed[0])

    def _ask(self, replica: Replica, path: str, accept: str, yaml: bytes | None = None) -> bytes:
        sent = {"Accept": accept} | ({"Content-Type": "application/yaml"} if yaml is not None else {})
        request = Request(f"{replica.url}{path}", yaml, sent)
        try:
            with _opener(replica).open(request, timeout=_TIMEOUT_SECONDS) as answer:
                return bytes(answer.read())
        except HTTPError as error:
            raise PageRefused(_refusal(error.read()) or str(error)) from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise ExtenderError(f"cannot reach {replica.name}: {reason}. {self._hint}") from error


def _refusal(body: bytes) -> str:
    """What the API says of its error, else the body as it is."""
    try:
        return msgspec.json.decode(body, type=ErrorBody).error.message
    except msgspec.MsgspecError:
        return body.decode(errors="replace").strip()


def _opener(replica: Replica) -> OpenerDirector:
    handlers = [HTTPSHandler(context=replica.tls)]
    return build_opener(*handlers, ProxyHandler({})) if replica.forwarded else build_opener(*handlers)


@contextlib.contextmanager
def connect(args: argparse.Namespace) -> Iterator[ExtenderClient]:
    """KubectlError when kubectl finds no extender."""
    with replicas(args) as found:
        yield ExtenderClient(found, _hint(args))


def _hint(args: argparse.Namespace) -> str:
    if args.extender == THROUGH_KUBECTL:
        return f"Look at its pods: kubectl get pods -n {args.extender_namespace}"
    if args.certs is None and args.extender.startswith("https:"):
        return "Name the folder of the extender's certificates with --certs DIR."
    return "Set the extender's address with --extender URL: https with certificates, http without."


def show_page(args: argparse.Namespace, path: str, yaml: bytes | None = None) -> int:
    """Prints the page as the extender renders it, or as data. yaml: what the page is about. Exit code."""
    with connect(args) as client:

        def render() -> str:
            if args.output in ("json", "yaml"):
                return output.document(client.json(path, yaml), args.output)
            return client.text(path, yaml)

        output.show(args, render)
    return 0


def _url(text: str) -> str:
    if text == THROUGH_KUBECTL:
        return text
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r}: want https://HOST:PORT, http://HOST:PORT or {THROUGH_KUBECTL}")
    return text.rstrip("/")
