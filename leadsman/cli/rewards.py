"""`leadsman rewards`: each node's failure record by pod type."""

import argparse
from collections.abc import Sequence

from msgspec.structs import replace

from extender.api.contract.cluster import RewardCell, RewardMatrix
from leadsman.cli import extender_client, output
from leadsman.cli.extender_client import MAX_LIMIT, ExtenderApi
from leadsman.cli.flags.options import Options
from leadsman.runtime.text_table import format_counts


def options(add: Options) -> None:
    add.argument("type", "show this pod type only", "", metavar="TYPE")
    add.argument("node", "show this node only", "", metavar="NODE")
    extender_client.options(add, "every number, by type and node")


def main(args: argparse.Namespace) -> int:
    with extender_client.connect(args) as api:
        output.show(args, lambda: _whole(api, args.type, args.node), lambda matrix: text(matrix, args.type, args.node))
    return 0


def _whole(api: ExtenderApi, pod_type: str, node: str) -> RewardMatrix:
    """All pages of nodes as one."""
    matrix = api.get("/rewards", RewardMatrix, type=pod_type, node=node, limit=MAX_LIMIT)
    while (cursor := matrix.nodes.next) is not None:
        further = api.get("/rewards", RewardMatrix, type=pod_type, node=node, limit=MAX_LIMIT, cursor=cursor)
        nodes = replace(further.nodes, items=[*matrix.nodes.items, *further.nodes.items])
        cells = [[*known, *more] for known, more in zip(matrix.cells, further.cells, strict=True)]
        matrix = replace(matrix, nodes=nodes, cells=cells)
    return matrix


_HEADER = ["TYPE", "NODE", "VALUE", "REWARD", "INTERVAL", "BLAME", "ELSEWHERE", "SAMPLES", "INCIDENTS"]


def text(matrix: RewardMatrix, pod_type: str, node: str) -> str:
    """A line a type and node, the worst node of each type first."""
    rows = [_row(name, matrix, cells) for name, cells in zip(matrix.pod_types, matrix.cells, strict=True)]
    if not rows:
        selection = f" of type {pod_type}" * bool(pod_type) + f" on node {node}" * bool(node)
        return f"no node reports rewards{selection}\n"
    return output.table([_HEADER, *(line for lines in rows for line in lines)])


def _row(pod_type: str, matrix: RewardMatrix, cells: Sequence[RewardCell | None]) -> list[list[str]]:
    known = [(node, cell) for node, cell in zip(matrix.nodes.items, cells, strict=True) if cell]
    known.sort(key=lambda each: (each[1].value, each[1].reward_ratio))
    return [
        [
            pod_type,
            node,
            f"{cell.value:.2f}",
            f"{cell.reward_ratio:.2f}",
            f"{cell.lower_ratio:.2f}..{cell.upper_ratio:.2f}",
            f"{cell.blame_ratio:.2f}",
            f"{cell.typical_ratio:.2f}",
            f"{cell.samples:.1f}",
            format_counts(cell.incidents) or "-",
        ]
        for node, cell in known
    ]
