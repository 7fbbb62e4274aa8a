"""`leadsman explain`: ask the extender why a pod was placed where it is."""

import argparse
from urllib.parse import quote

from leadsman.cli import extender_client
from leadsman.cli.options import Options


def options(add: Options) -> None:
    add.parser.add_argument("pod", metavar="POD", help="NAMESPACE/NAME, or NAME in the namespace default")
    extender_client.options(add, "print every node and number as JSON")


def main(args: argparse.Namespace) -> int:
    pod = args.pod if "/" in args.pod else f"default/{args.pod}"
    return extender_client.print_page(args, f"/explain?pod={quote(pod)}")
