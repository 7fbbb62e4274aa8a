"""`leadsman rewards`: ask the extender for each node's failure record by pod type."""

import argparse
from urllib.parse import urlencode

from leadsman.cli import extender_client
from leadsman.cli.flags.options import Options


def options(add: Options) -> None:
    add.argument("type", "show this pod type only", "", metavar="TYPE")
    add.argument("node", "show this node only", "", metavar="NODE")
    extender_client.options(add, "every number, by type and node")


def main(args: argparse.Namespace) -> int:
    query = urlencode({name: value for name, value in (("type", args.type), ("node", args.node)) if value})
    return extender_client.show_page(args, f"/rewards?{query}")
