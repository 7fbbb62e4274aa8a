"""`leadsman nodes`: each node as the extender sees it: how fresh, how many peers, how far."""

import argparse
import sys
from collections.abc import Mapping, Sequence

from leadsman.cli import extender_client, output, state_page
from leadsman.cli.flags.options import Options
from leadsman.cli.state_page import NodePage
from leadsman.runtime.text_table import format_number


def options(add: Options) -> None:
    add.parser.add_argument("names", metavar="NODE", nargs="*", help="show these nodes only")
    extender_client.options(add, "everything that the extender has of each node")


def main(args: argparse.Namespace) -> int:
    """ValueError for a node that the extender does not have."""
    with extender_client.connect(args) as client:

        def render() -> str:
            page = state_page.read(client.json("/state"))
            nodes = {name: page.node(name) for name in args.names} if args.names else page.nodes
            if args.output in ("json", "yaml"):
                return output.document(nodes, args.output)
            return output.table(rows(nodes, args.output == "wide"), colour=output.has_colour(sys.stdout))

        output.show(args, render)
    return 0


def rows(nodes: Mapping[str, NodePage], wide: bool) -> Sequence[Sequence[str]]:
    titles = ["NAME", output.STATUS, "AGE", "PEERS", "RTT-MS", "NEAREST"]
    return [titles + ["ADDRESS", "ZONE"] * wide, *(_row(name, node, wide) for name, node in nodes.items())]


def _row(name: str, node: NodePage, wide: bool) -> list[str]:
    """PEERS: measured of probed. RTT-MS: the median over the measured ones."""
    measured = node.measured_ms
    nearest = min(measured, key=lambda peer: measured[peer], default="-")
    return [
        name,
        node.freshness,
        "-" if node.age_seconds is None else f"{node.age_seconds:.0f}s",
        f"{len(measured)}/{len(node.peers_p50_ms)}",
        "-" if node.median_rtt_ms is None else format_number(node.median_rtt_ms),
        nearest,
        *([node.address or "-", node.zone or "-"] if wide else []),
    ]
