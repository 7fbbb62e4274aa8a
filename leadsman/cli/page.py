"""`leadsman page`: the page of an extender in the browser of this machine, through `kubectl port-forward`."""

import argparse

from leadsman.cli import kubectl
from leadsman.cli.extender_replicas import API_PORT, extender_pods
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import positive_int


def options(add: Options) -> None:
    add = add.without_environment()
    add.argument("port", "port of 127.0.0.1 that the page is served on (default {default})", API_PORT, positive_int)
    kubectl.options(add)


def main(args: argparse.Namespace) -> int:
    """Becomes kubectl, which forwards the port until it is interrupted."""
    ours, namespace = kubectl.Kubectl.of(args), args.extender_namespace
    pod = extender_pods(ours, namespace)[0]["metadata"]["name"]
    print(f"open http://127.0.0.1:{args.port}/ (Ctrl-C ends it)", flush=True)
    ours.become("port-forward", "-n", namespace, f"pod/{pod}", f"{args.port}:{API_PORT}", "--address=127.0.0.1")
