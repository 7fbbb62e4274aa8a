"""`leadsman delay A B`: the round trip between two nodes, as each of them measures it."""

import argparse
from collections.abc import Sequence
from urllib.parse import quote

from extender.api.contract.delays import DirectedDelay, PairDelays
from leadsman.cli import extender_client, output
from leadsman.cli.flags.options import Options
from leadsman.runtime.text_table import format_number


def options(add: Options) -> None:
    add.parser.add_argument("source", metavar="A", help="a node")
    add.parser.add_argument("target", metavar="B", help="another node")
    extender_client.options(add, "both directions, the estimate, and what a decision uses")


def main(args: argparse.Namespace) -> int:
    path = f"/delays/pairs/{quote(args.source, safe='')}/{quote(args.target, safe='')}"
    with extender_client.connect(args) as api:
        output.show(args, lambda: api.get(path, PairDelays), text)
    return 0


def text(pair: PairDelays) -> str:
    lines = output.table(rows(pair))
    if estimate := pair.estimate:
        low, high = format_number(estimate.low_ms), format_number(estimate.high_ms)
        lines += f"estimate: {format_number(estimate.rtt_ms)} ms ({low} to {high}), by {estimate.source}\n"
    used = "nothing" if pair.used.rtt_ms is None else f"{format_number(pair.used.rtt_ms)} ms"
    return f"{lines}a decision uses {used}: {pair.used.reason}\n"


def rows(pair: PairDelays) -> Sequence[Sequence[str]]:
    """STATUS: measured, lost (probed without an answer) or unknown (not probed)."""
    return [
        ["FROM", "TO", output.STATUS, "RTT-MS", "P95-MS", "REPLIES", "AGE"],
        [pair.a, pair.b, *_cells(pair.forward)],
        [pair.b, pair.a, *_cells(pair.backward)],
    ]


def _cells(delay: DirectedDelay | None) -> list[str]:
    if delay is None:
        return ["unknown", "-", "-", "-", "-"]
    return [
        "lost" if delay.rtt_ms is None else "measured",
        *("-" if value is None else format_number(value) for value in (delay.rtt_ms, delay.p95_ms)),
        f"{delay.received}/{delay.sent}",
        "-" if delay.age_seconds is None else f"{delay.age_seconds:.0f}s",
    ]
