"""`leadsman rewards`: ask the extender how each node has treated each type of pod."""

import argparse
from urllib.parse import urlencode

from leadsman.cli import extender_client
from leadsman.cli.options import Options


def options(add: Options) -> None:
    add.flag("type", "only this type of pod", "", metavar="TYPE")
    add.flag("node", "only this node", "", metavar="NODE")
    extender_client.options(add, "by type and by node, every number, as JSON")


def main(args: argparse.Namespace) -> int:
    query = urlencode({name: value for name, value in (("type", args.type), ("node", args.node)) if value})
    return extender_client.print_page(args, f"/rewards?{query}")
