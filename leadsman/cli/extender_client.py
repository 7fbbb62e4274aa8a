"""Asks an extender's API (docs/page.md): the flags, the replicas, the call, and what is said when it fails.

The API is at a URL, or on the loopback address of each extender's pod behind a forwarded port. A decision is kept by
the replica that made it, so who asks for one asks them all.
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

import msgspec

from extender.api.requests import POSTS_PER_SECOND, ErrorBody, ListPage
from leadsman.cli import kubectl, output
from leadsman.cli.flags.options import CommandFailed, Options
from leadsman.cli.flags.values import THROUGH_KUBECTL, checked
from leadsman.cli.kubectl import Kubectl, KubectlError, is_ready
from leadsman.runtime.decode_errors import UNREADABLE, explain
from leadsman.runtime.version import VERSION

API_PORT = 9008
"""The extender's API and page listen here, on its pod's loopback address."""

SELECTOR = "app.kubernetes.io/part-of=leadsman,app.kubernetes.io/component=extender"


T = TypeVar("T")

PREFIX, MAX_LIMIT = "/api/v1", 1000

_TIMEOUT_SECONDS = 10
_DEFAULT_URL = f"http://127.0.0.1:{API_PORT}"


class ExtenderError(CommandFailed):
    """The extender cannot be asked; the text says why and what to do. status: of its answer; 0: none came."""

    status = 0


def options(add: Options, json: str) -> None:
    """Adds the flags that name an extender. json: what -o json shows."""
    add.flag(
        "extender",
        f"URL of the extender's API, or {THROUGH_KUBECTL} to find it in the cluster (default {{default}};"
        f" {THROUGH_KUBECTL} as a plugin of kubectl, and where one of its clusters is named)",
        _DEFAULT_URL,
        _url,
        metavar="URL",
    )
    kubectl.options(add)
    output.options(add, json=json)


class ExtenderApi:
    """Calls the API of one replica."""

    def __init__(self, name: str, url: str, hint: str, forwarded: bool = False) -> None:
        """hint: what to do when it cannot be reached. forwarded: by kubectl; no proxy is asked."""
        self.name, self._url, self._hint, self._forwarded = name, url, hint, forwarded

    def get(self, path: str, kind: type[T], body: object = None, **query: object) -> T:
        """Asks for what is at a path below /api/v1. body: makes it a POST. query: a parameter that is None or "" is
        left out. Raises ExtenderError."""
        given = {name: value for name, value in query.items() if value not in (None, "")}
        whole = f"{PREFIX}{path}{f'?{urlencode(given)}' if given else ''}"
        answer = self.read(whole, msgspec.json.encode(body) if body else None)
        try:
            return msgspec.json.decode(answer, type=kind)
        except UNREADABLE as error:
            unread = f"{self.name} answers what leadsman {VERSION} cannot read; is it of another version?"
            raise ExtenderError(f"{unread} {path}: {explain(error)}") from error

    def every(self, path: str, kind: type[T], **query: object) -> list[T]:
        """Returns all items of a list, page after page."""
        items, cursor = list[T](), None
        while True:
            page: ListPage[T] = self.get(path, ListPage[kind], **query, limit=MAX_LIMIT, cursor=cursor)  # type: ignore[valid-type]
            items += page.items
            if page.next is None:
                return items
            cursor = page.next

    def read(self, path: str, data: bytes | None = None, tries: int = 5) -> bytes:
        """Returns the answer at this path, with its query. data: of a POST. One that came too soon is sent again."""
        request = Request(f"{self._url}{path}", data, {"Content-Type": "application/json"} if data else {})
        opener = build_opener(ProxyHandler({})) if self._forwarded else build_opener()
        try:
            with opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                return bytes(answer.read())
        except HTTPError as error:
            if error.code == HTTPStatus.TOO_MANY_REQUESTS and tries > 1:
                time.sleep(1 / POSTS_PER_SECOND)
                return self.read(path, data, tries - 1)
            failed = ExtenderError(_refusal(error.read()) or str(error))
            failed.status = error.code
            raise failed from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise ExtenderError(f"cannot reach {self.name}: {reason}. {self._hint}".strip()) from error


def _refusal(body: bytes) -> str:
    """Returns what the API says of its error, else the body as it is."""
    try:
        return msgspec.json.decode(body, type=ErrorBody).error.message
    except msgspec.MsgspecError:
        return body.decode(errors="replace").strip()


@contextlib.contextmanager
def forwarded(kubectl: Kubectl, pod: Mapping[str, Any], port: int, hint: str) -> Iterator[ExtenderApi]:
    """Forwards a port of this machine to the pod's until the block ends. Raises KubectlError."""
    name = pod["metadata"]["name"]
    with kubectl.port_forward(pod["metadata"]["namespace"], name, port) as local:
        yield ExtenderApi(name, f"http://127.0.0.1:{local}", hint, forwarded=True)


def asks_kubectl(args: argparse.Namespace) -> bool:
    """Tells whether kubectl finds the extender: it was asked to, or one of its clusters is named and no URL."""
    names_cluster = args.extender == _DEFAULT_URL and (args.kubeconfig or args.context)
    return bool(args.extender == THROUGH_KUBECTL or names_cluster)


@contextlib.contextmanager
def connect_to_every(args: argparse.Namespace, *, first: bool = False) -> Iterator[Sequence[ExtenderApi]]:
    """Connects to all replicas that answer, for what each alone keeps. first: only to the first of them.

    Standard error says which did not: one whose node has just died is still called ready. Raises CommandFailed when
    none does.
    """
    if not asks_kubectl(args):
        hint = (
            f"Name the address of its --api-listen with --extender URL, or have it found: --extender {THROUGH_KUBECTL}"
        )
        yield [ExtenderApi(args.extender, args.extender, hint)]
        return
    ours, hint = Kubectl.of(args), f"Look at its pods: kubectl get pods -n {args.extender_namespace}"
    pods = extender_pods(ours, args.extender_namespace)
    answering, silent = list[ExtenderApi](), list[CommandFailed]()
    with contextlib.ExitStack() as stack:
        for pod in pods:
            try:
                api = stack.enter_context(forwarded(ours, pod, API_PORT, hint))
                api.read(f"{PREFIX}/decisions?limit=1")
                answering.append(api)
            except (KubectlError, ExtenderError) as error:
                silent.append(error)
            if answering and first:
                break
        if not answering:
            raise silent[0]
        for each in silent:
            print(f"not asked: {each}", file=sys.stderr)
        yield answering


@contextlib.contextmanager
def connect(args: argparse.Namespace) -> Iterator[ExtenderApi]:
    """Connects to one replica, as all have the same state. Raises KubectlError when kubectl finds no extender."""
    with connect_to_every(args, first=True) as (api,):
        yield api


def extender_pods(kubectl: Kubectl, namespace: str) -> Sequence[Mapping[str, Any]]:
    """Returns the running extender pods, ready ones first. Raises KubectlError when there is none."""
    pods = kubectl.json("get", "pods", "-n", namespace, "-l", SELECTOR)["items"]
    running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    if not running:
        raise KubectlError(
            f"no extender runs in the namespace {namespace}; name another one with --extender-namespace,"
            f" or look at it: kubectl get pods -n {namespace}"
        )
    return sorted(running, key=lambda pod: (not is_ready(pod), pod["metadata"]["name"]))


def _url(text: str) -> str:
    is_fine = text == THROUGH_KUBECTL or text.startswith(("http://", "https://"))
    return checked(text, is_fine, f"http://HOST:PORT, https://HOST:PORT or {THROUGH_KUBECTL}").rstrip("/")
