"""Where the extender's API is: at a URL, or on the loopback address of each extender's pod, behind a forwarded port.

A decision is kept by the replica that made it, so who asks for one asks them all. This is the only place that does.
"""

import argparse
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from leadsman.cli.flags.values import THROUGH_KUBECTL
from leadsman.cli.kubectl import Kubectl, KubectlError

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


def is_ready(pod: Mapping[str, Any]) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))


@contextlib.contextmanager
def forwarded(kubectl: Kubectl, pod: Mapping[str, Any], port: int) -> Iterator[Replica]:
    """The pod as a replica, behind a forwarded port. KubectlError."""
    name = pod["metadata"]["name"]
    with kubectl.port_forward(pod["metadata"]["namespace"], name, port) as local:
        yield Replica(name, f"http://127.0.0.1:{local}", forwarded=True)
