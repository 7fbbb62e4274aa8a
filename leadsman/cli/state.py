"""`leadsman state`: how much the extender sees of the cluster, and what is wrong with it."""

import argparse
from collections import Counter

from leadsman.cli import extender_client, output, state_page
from leadsman.cli.flags.options import Options
from leadsman.cli.state_page import StatePage
from leadsman.runtime.text_table import align_columns


def options(add: Options) -> None:
    extender_client.options(add, "the whole page /state")


def main(args: argparse.Namespace) -> int:
    with extender_client.connect(args) as client:

        def render() -> str:
            plain = client.json("/state")
            if args.output in ("json", "yaml"):
                return output.document(plain, args.output)
            return summary(state_page.read(plain))

        output.show(args, render)
    return 0


def summary(page: StatePage) -> str:
    by_status = Counter(node.freshness for node in page.nodes.values())
    measured = sum(len(node.measured_ms) for node in page.nodes.values())
    probed = sum(len(node.peers_p50_ms) for node in page.nodes.values())
    age = "unknown" if page.age_seconds is None else f"{page.age_seconds:.1f} s"
    rows = [
        ["nodes", ", ".join(f"{count} {status}" for status, count in sorted(by_status.items())) or "none"],
        ["round trips", f"{measured} measured of {probed} probed"],
        ["newest report", age],
        ["revision", str(page.revision)],
        ["etcd cluster", page.cluster or "none"],
        ["problems", str(len(page.every_problem))],
    ]
    return "\n".join([*align_columns(rows), *(f"problem: {each}" for each in page.every_problem)]) + "\n"
