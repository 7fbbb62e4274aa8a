"""`leadsman state`: how much the extender sees of the cluster, and what is wrong with it."""

import argparse
from collections.abc import Mapping

from msgspec import Struct

from extender.api.contract.delays import NodeLayers, NodeNameGroups
from extender.api.contract.overview import Overview
from leadsman.cli import extender_client, output
from leadsman.cli.flags.options import Options
from leadsman.runtime.text_table import align_columns

_MAX_LISTED = 20


class State(Struct, frozen=True):
    """What -o json shows."""

    overview: Overview
    layers: NodeLayers


def options(add: Options) -> None:
    extender_client.options(add, "/overview and /delays/layers of the API")


def main(args: argparse.Namespace) -> int:
    with extender_client.connect(args) as api:
        output.show(
            args,
            lambda: State(api.get("/overview", Overview), api.get("/delays/layers", NodeLayers)),
            summary,
        )
    return 0


def summary(state: State) -> str:
    seen = state.overview
    nodes = {status: getattr(seen.nodes, status) for status in seen.nodes.__struct_fields__}
    newest = seen.newest_report_seconds
    rows = [
        ["nodes", ", ".join(f"{count} {status}" for status, count in nodes.items() if count) or "none"],
        ["pairs", f"{seen.pairs.measured} measured, {seen.pairs.lost} lost, {seen.pairs.estimated} estimated"],
        ["newest report", "unknown" if newest is None else f"{newest:.1f} s ago"],
        ["revision", str(seen.revision)],
        ["etcd cluster", seen.cluster or "none"],
        ["problems", str(len(seen.problems))],
    ]
    problems = [f"{each.severity}: {each.text}; {each.what_to_do}" for each in seen.problems]
    return "\n".join([*align_columns(rows), *problems, *group_lines("nodes", state.layers.layers)]) + "\n"


def group_lines(subject: str, layers: Mapping[str, NodeNameGroups]) -> list[str]:
    """A line a layer. The first groups only, as there may be thousands."""
    lines = []
    for layer, groups in layers.items():
        listed = [", ".join(group[:_MAX_LISTED]) + ", …" * (len(group) > _MAX_LISTED) for group in groups[:_MAX_LISTED]]
        more = [f"{len(groups) - _MAX_LISTED} more"] if len(groups) > _MAX_LISTED else []
        lines.append(f"{subject} within {layer}: {' | '.join([*listed, *more]) or 'no two'}")
    return lines
