"""`leadsman nodes`: each node as the extender sees it: how fresh, how many peers, how far."""

import argparse
from collections.abc import Sequence
from urllib.parse import quote

from extender.api.contract.nodes import NodeDetail, NodeRow
from leadsman.cli import extender_client, output
from leadsman.cli.flags.options import Options
from leadsman.runtime.text_table import format_number


def options(add: Options) -> None:
    add.parser.add_argument("names", metavar="NODE", nargs="*", help="show these nodes only")
    extender_client.options(add, "everything that the extender has of each node")


def main(args: argparse.Namespace) -> int:
    with extender_client.connect(args) as api:

        def nodes() -> Sequence[NodeRow]:
            if args.names:
                return [api.get(f"/nodes/{quote(name, safe='')}", NodeDetail) for name in args.names]
            return api.every("/nodes", NodeRow)

        output.show(args, nodes, lambda found: output.table(rows(found, args.output == "wide")))
    return 0


def rows(nodes: Sequence[NodeRow], wide: bool) -> Sequence[Sequence[str]]:
    """PEERS: measured of probed. RTT-MS: the median over the measured ones."""
    more = ["JITTER-MS", "ADDRESS", "ZONE", "PROBLEMS"] if wide else []
    return [["NAME", output.STATUS, "AGE", "PEERS", "RTT-MS", *more], *(_row(node, wide) for node in nodes)]


def _row(node: NodeRow, wide: bool) -> list[str]:
    more = [_number(node.jitter_ms), node.address or "-", node.zone or "-", "; ".join(node.problems) or "-"]
    return [
        node.name,
        node.status,
        "-" if node.age_seconds is None else f"{node.age_seconds:.0f}s",
        f"{node.peers_measured}/{node.peers_measured + node.peers_lost}",
        _number(node.median_rtt_ms),
        *(more if wide else ()),
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else format_number(value)
