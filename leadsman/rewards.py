"""`leadsman rewards`: ask the extender how each node has treated each type of pod."""

import argparse
from urllib.parse import urlencode

from leadsman import asking
from leadsman.options import Options


def options(add: Options) -> None:
    add.flag("type", "only this type of pod", "", metavar="TYPE")
    add.flag("node", "only this node", "", metavar="NODE")
    asking.options(add, "by type and by node, every number, as JSON")


def main(args: argparse.Namespace) -> int:
    query = urlencode({name: value for name, value in (("type", args.type), ("node", args.node)) if value})
    return asking.print_page(args, f"/rewards?{query}")
