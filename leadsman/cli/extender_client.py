"""Asks an extender's API (docs/page.md): the flags, the replicas, the call, and what is said when it fails.

The API is at a URL, or on the loopback address of each extender's pod behind a forwarded port. A decision is kept by
the replica that made it, so who asks for one asks them all.
"""

import argparse
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

import msgspec
from msgspec import Struct

from extender.api.requests import ErrorBody, ListPage
from leadsman.cli import kubectl, output
from leadsman.cli.flags.options import CommandFailed, Options
from leadsman.cli.flags.values import THROUGH_KUBECTL
from leadsman.cli.kubectl import Kubectl, KubectlError, is_ready

API_PORT = 9008
"""Of the extender's API and page, on its pod's loopback address."""

SELECTOR = "app.kubernetes.io/name=leadsman,app.kubernetes.io/component=extender"


class Replica(Struct, frozen=True):
    """One extender, as it can be asked. forwarded: by kubectl, so that no proxy of the environment stands between."""

    name: str
    url: str
    forwarded: bool = False


@contextlib.contextmanager
def replicas(args: argparse.Namespace, *, every: bool = False) -> Iterator[Sequence[Replica]]:
    """The extender that the flags name; through kubectl the first ready pod, or `every` one. KubectlError."""
    if args.extender != THROUGH_KUBECTL:
        yield [Replica(args.extender, args.extender)]
        return
    kubectl = Kubectl.of(args)
    pods = extender_pods(kubectl, args.extender_namespace)
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(forwarded(kubectl, pod, API_PORT)) for pod in (pods if every else pods[:1])]


def extender_pods(kubectl: Kubectl, namespace: str) -> Sequence[Mapping[str, Any]]:
    """The running extender pods, ready ones first. KubectlError when there is none."""
    pods = kubectl.json("get", "pods", "-n", namespace, "-l", SELECTOR)["items"]
    running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    if not running:
        raise KubectlError(
            f"no extender runs in the namespace {namespace}; name another one with --extender-namespace,"
            f" or look at it: kubectl get pods -n {namespace}"
        )
    return sorted(running, key=lambda pod: (not is_ready(pod), pod["metadata"]["name"]))


@contextlib.contextmanager
def forwarded(kubectl: Kubectl, pod: Mapping[str, Any], port: int) -> Iterator[Replica]:
    """The pod as a replica, behind a forwarded port. KubectlError."""
    name = pod["metadata"]["name"]
    with kubectl.port_forward(pod["metadata"]["namespace"], name, port) as local:
        yield Replica(name, f"http://127.0.0.1:{local}", forwarded=True)


T = TypeVar("T")

PREFIX, MAX_LIMIT = "/api/v1", 1000

_TIMEOUT_SECONDS = 10


class ExtenderError(CommandFailed):
    """The extender cannot be asked; says why and what to do."""


class Refused(ExtenderError):
    """The extender was reached, and says why it has no answer."""


def options(add: Options, json: str) -> None:
    """json: what -o json shows."""
    add.flag(
        "extender",
        f"URL of the extender's API, or {THROUGH_KUBECTL} to find it in the cluster (default {{default}};"
        f" {THROUGH_KUBECTL} as a plugin of kubectl)",
        f"http://127.0.0.1:{API_PORT}",
        _url,
        metavar="URL",
    )
    kubectl.options(add)
    output.options(add, json=json)


class ExtenderApi:
    """The API of one replica."""

    def __init__(self, replica: Replica, hint: str = "") -> None:
        """hint: what to do when it cannot be reached."""
        self.name = replica.name
        self._replica, self._hint = replica, hint

    def get(self, path: str, kind: type[T], **query: object) -> T:
        """path: below /api/v1. query: a parameter that is None or "" is left out. ExtenderError."""
        return msgspec.json.decode(self.read(f"{PREFIX}{path}{_query(query)}"), type=kind)

    def post(self, path: str, body: object, kind: type[T], **query: object) -> T:
        data = msgspec.json.encode(body)
        return msgspec.json.decode(self.read(f"{PREFIX}{path}{_query(query)}", data), type=kind)

    def every(self, path: str, kind: type[T], **query: object) -> list[T]:
        """Returns all items of a list, page after page."""
        items, cursor = list[T](), None
        while True:
            page: ListPage[T] = self.get(path, ListPage[kind], **query, limit=MAX_LIMIT, cursor=cursor)  # type: ignore[valid-type]
            items += page.items
            if page.next is None:
                return items
            cursor = page.next

    def read(self, path: str, data: bytes | None = None) -> bytes:
        """Returns what it answers at this path, with its query. data: of a POST."""
        request = Request(f"{self._replica.url}{path}", data, {"Content-Type": "application/json"} if data else {})
        opener = build_opener(ProxyHandler({})) if self._replica.forwarded else build_opener()
        try:
            with opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                return bytes(answer.read())
        except HTTPError as error:
            raise Refused(_refusal(error.read()) or str(error)) from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise ExtenderError(f"cannot reach {self.name}: {reason}. {self._hint}".strip()) from error


def _query(parameters: dict[str, object]) -> str:
    given = {name: value for name, value in parameters.items() if value not in (None, "")}
    return f"?{urlencode(given)}" if given else ""


def _refusal(body: bytes) -> str:
    """Returns what the API says of its error, else the body as it is."""
    try:
        return msgspec.json.decode(body, type=ErrorBody).error.message
    except msgspec.MsgspecError:
        return body.decode(errors="replace").strip()


@contextlib.contextmanager
def connect(args: argparse.Namespace) -> Iterator[ExtenderApi]:
    """The API of one replica: all have the same state. KubectlError when kubectl finds no extender."""
    with replicas(args) as found:
        yield ExtenderApi(found[0], _hint(args))


@contextlib.contextmanager
def connect_to_every(args: argparse.Namespace) -> Iterator[Sequence[ExtenderApi]]:
    """The APIs of all replicas, for what each alone keeps."""
    with replicas(args, every=True) as found:
        yield [ExtenderApi(each, _hint(args)) for each in found]


def _hint(args: argparse.Namespace) -> str:
    if args.extender == THROUGH_KUBECTL:
        return f"Look at its pods: kubectl get pods -n {args.extender_namespace}"
    return "Name the address of its --api-listen with --extender URL."


def _url(text: str) -> str:
    if text == THROUGH_KUBECTL:
        return text
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r}: want http://HOST:PORT, https://HOST:PORT or {THROUGH_KUBECTL}")
    return text.rstrip("/")
