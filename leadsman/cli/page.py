"""`leadsman page`: the page of an extender in the browser of this machine, through `kubectl port-forward`."""

import argparse
import contextlib
from collections.abc import Mapping
from typing import Any

from extender.api.contract.common import ListPage
from extender.api.contract.decisions import DecisionRow
from leadsman.cli import kubectl
from leadsman.cli.command_failed import CommandFailed
from leadsman.cli.extender_client import ExtenderApi
from leadsman.cli.extender_replicas import API_PORT, extender_pods, forwarded
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import positive_int
from leadsman.cli.kubectl import Kubectl


def options(add: Options) -> None:
    add = add.without_environment()
    add.argument("port", "port of 127.0.0.1 that the page is served on (default {default})", API_PORT, positive_int)
    kubectl.options(add)


def main(args: argparse.Namespace) -> int:
    """Becomes kubectl, which forwards the port until it is interrupted."""
    ours, namespace = Kubectl.of(args), args.extender_namespace
    pods = extender_pods(ours, namespace)
    # The page shows what one replica decided, and kube-scheduler asks one: that which decided last.
    pod = max(pods, key=lambda pod: _newest_decision(ours, pod)) if len(pods) > 1 else pods[0]
    print(f"open http://127.0.0.1:{args.port}/ (Ctrl-C ends it)", flush=True)
    name = pod["metadata"]["name"]
    ours.become("port-forward", "-n", namespace, f"pod/{name}", f"{args.port}:{API_PORT}", "--address=127.0.0.1")


def _newest_decision(ours: Kubectl, pod: Mapping[str, Any]) -> str:
    """When the replica decided last; "": never, or it does not say."""
    with contextlib.suppress(CommandFailed), forwarded(ours, pod, API_PORT) as replica:
        kept = ExtenderApi(replica).get("/decisions", ListPage[DecisionRow], limit=1)
        return kept.items[0].at if kept.items else ""
    return ""
