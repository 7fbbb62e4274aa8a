"""`leadsman explain`: ask the extender why a pod went where it went."""

import argparse
from urllib.parse import quote

from leadsman import asking
from leadsman.options import Options


def options(add: Options) -> None:
    add.parser.add_argument("pod", help="NAMESPACE/NAME, or NAME in the namespace default")
    asking.options(add, "every node and number, as JSON")


def main(args: argparse.Namespace) -> int:
    pod = args.pod if "/" in args.pod else f"default/{args.pod}"
    return asking.print_page(args, f"/explain?pod={quote(pod)}")
