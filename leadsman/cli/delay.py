"""`leadsman delay A B`: the round trip between two nodes, as each of them measures it."""

import argparse
import sys
from collections.abc import Sequence

from msgspec import Struct

from leadsman.cli import extender_client, output, state_page
from leadsman.cli.flags.options import Options
from leadsman.cli.state_page import StatePage
from leadsman.runtime.text_table import format_number


class MeasuredDelay(Struct, frozen=True):
    """One direction. status: measured, lost (probed without an answer) or unknown (not probed).

    freshness: of the node that reports it. rtt_ms: None: unknown.
    """

    source: str
    target: str
    status: str
    rtt_ms: float | None
    age_seconds: float | None
    freshness: str


def options(add: Options) -> None:
    add.parser.add_argument("source", metavar="A", help="a node")
    add.parser.add_argument("target", metavar="B", help="another node")
    extender_client.options(add, "both directions")


def main(args: argparse.Namespace) -> int:
    """ValueError for a node that the extender does not have."""
    with extender_client.connect(args) as client:

        def render() -> str:
            page = state_page.read(client.json("/state"))
            found = [measured(page, args.source, args.target), measured(page, args.target, args.source)]
            if args.output in ("json", "yaml"):
                return output.document(found, args.output)
            return output.table(rows(found), colour=output.has_colour(sys.stdout))

        output.show(args, render)
    return 0


def measured(page: StatePage, source: str, target: str) -> MeasuredDelay:
    page.node(target)
    node = page.node(source)
    rtt_ms = node.peers_p50_ms.get(target)
    status = "unknown" if target not in node.peers_p50_ms else "lost" if rtt_ms is None else "measured"
    return MeasuredDelay(source, target, status, rtt_ms, node.age_seconds, node.freshness)


def rows(found: Sequence[MeasuredDelay]) -> Sequence[Sequence[str]]:
    return [
        ["FROM", "TO", output.STATUS, "RTT-MS", "AGE", "REPORTER"],
        *(
            [
                each.source,
                each.target,
                each.status,
                "-" if each.rtt_ms is None else format_number(each.rtt_ms),
                "-" if each.age_seconds is None else f"{each.age_seconds:.0f}s",
                each.freshness,
            ]
            for each in found
        ),
    ]
