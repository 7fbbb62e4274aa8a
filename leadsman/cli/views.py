"""Shows what the extender sees: `leadsman nodes`, `delay`, `rewards`, `state`, and `page`, the extender's own page.

Each asks the extender's API and prints a table; with -o json or yaml, what the API said.
"""

import argparse
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from extender.api.decisions import DecisionRow
from extender.api.delays import NodeLayers, NodeNameGroups
from extender.api.nodes import NodeDetail, NodeRow
from extender.api.overview import Overview
from extender.api.pairs import DirectedDelay, PairDelays
from extender.api.requests import ListPage
from extender.api.rewards import RewardCell, RewardMatrix
from leadsman.cli import extender_client, kubectl, output
from leadsman.cli.extender_client import API_PORT, MAX_LIMIT, ExtenderApi, extender_pods, forwarded
from leadsman.cli.flags.options import CommandFailed, Options
from leadsman.cli.flags.values import port_number
from leadsman.cli.kubectl import Kubectl
from leadsman.runtime.text_table import align_columns, format_counts, format_number

_MAX_LISTED = 20


class State(Struct, frozen=True):
    """Everything that `leadsman state -o json` shows."""

    overview: Overview
    layers: NodeLayers


def state_options(add: Options) -> None:
    extender_client.options(add, "/overview and /delays/layers of the API")


def state_main(args: argparse.Namespace) -> int:
    with extender_client.connect(args) as api:
        output.show(
            args, lambda: State(api.get("/overview", Overview), api.get("/delays/layers", NodeLayers)), state_text
        )
    return 0


def state_text(state: State) -> str:
    seen, pairs = state.overview, state.overview.pairs
    nodes = {status: getattr(seen.nodes, status) for status in seen.nodes.__struct_fields__}
    newest = seen.newest_report_seconds
    rows = [
        ["nodes", ", ".join(f"{count} {status}" for status, count in nodes.items() if count) or "none"],
        ["pairs", f"{pairs.measured} measured, {pairs.lost} directions lost, {pairs.estimated} estimated"],
        ["newest report", "unknown" if newest is None else f"{newest:.1f} s ago"],
        ["revision", str(seen.revision)],
        ["etcd cluster", seen.cluster or "none"],
        ["problems", str(len(seen.problems))],
    ]
    problems = [f"{each.severity}: {each.text}; {each.what_to_do}" for each in seen.problems]
    return "\n".join([*align_columns(rows), *problems, *group_lines("nodes", state.layers.layers)]) + "\n"


def group_lines(subject: str, layers: Mapping[str, NodeNameGroups]) -> list[str]:
    """Writes a line for each layer, with its first groups only, as there may be thousands."""
    lines = []
    for layer, groups in layers.items():
        listed = [", ".join(group[:_MAX_LISTED]) + ", …" * (len(group) > _MAX_LISTED) for group in groups[:_MAX_LISTED]]
        more = [f"{len(groups) - _MAX_LISTED} more"] if len(groups) > _MAX_LISTED else []
        lines.append(f"{subject} within {layer}: {' | '.join([*listed, *more]) or 'no two'}")
    return lines


def nodes_options(add: Options) -> None:
    add.parser.add_argument("names", metavar="NODE", nargs="*", help="show these nodes only")
    extender_client.options(add, "everything that the extender has of each node")


def nodes_main(args: argparse.Namespace) -> int:
    with extender_client.connect(args) as api:

        def nodes() -> Sequence[NodeRow]:
            if args.names:
                return [api.get(f"/nodes/{quote(name, safe='')}", NodeDetail) for name in args.names]
            return api.every("/nodes", NodeRow)

        output.show(args, nodes, lambda found: output.table(node_rows(found, args.output == "wide")))
    return 0


def node_rows(nodes: Sequence[NodeRow], wide: bool) -> Sequence[Sequence[str]]:
    """Makes the table's rows. PEERS: measured of probed. RTT-MS: the median over the measured ones."""
    more = ["JITTER-MS", "ADDRESS", "ZONE", "PROBLEMS"] if wide else []
    return [["NAME", "STATUS", "AGE", "PEERS", "RTT-MS", *more], *(_node_row(node, wide) for node in nodes)]


def _node_row(node: NodeRow, wide: bool) -> list[str]:
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


def delay_options(add: Options) -> None:
    add.parser.add_argument("source", metavar="A", help="a node")
    add.parser.add_argument("target", metavar="B", help="another node")
    extender_client.options(add, "both directions, the estimate, and what a decision uses")


def delay_main(args: argparse.Namespace) -> int:
    path = f"/delays/pairs/{quote(args.source, safe='')}/{quote(args.target, safe='')}"
    with extender_client.connect(args) as api:
        output.show(args, lambda: api.get(path, PairDelays), delay_text)
    return 0


def delay_text(pair: PairDelays) -> str:
    lines = output.table(delay_rows(pair))
    if estimate := pair.estimate:
        low, high = format_number(estimate.low_ms), format_number(estimate.high_ms)
        lines += f"estimate: {format_number(estimate.rtt_ms)} ms ({low} to {high}), by {estimate.source}\n"
    used = "nothing" if pair.used.rtt_ms is None else f"{format_number(pair.used.rtt_ms)} ms"
    return f"{lines}a decision uses {used}: {pair.used.reason}\n"


def delay_rows(pair: PairDelays) -> Sequence[Sequence[str]]:
    """Makes the table's rows. STATUS: measured, lost (probed without an answer) or unknown (not probed)."""
    return [
        ["FROM", "TO", "STATUS", "RTT-MS", "P95-MS", "REPLIES", "AGE"],
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


def rewards_options(add: Options) -> None:
    add.argument("type", "show this pod type only", "", metavar="TYPE")
    add.argument("node", "show this node only", "", metavar="NODE")
    extender_client.options(add, "every number, by type and node")


def rewards_main(args: argparse.Namespace) -> int:
    with extender_client.connect(args) as api:
        output.show(
            args, lambda: _whole(api, args.type, args.node), lambda matrix: reward_text(matrix, args.type, args.node)
        )
    return 0


def _whole(api: ExtenderApi, pod_type: str, node: str) -> RewardMatrix:
    """Returns all pages of nodes as one."""
    matrix = api.get("/rewards", RewardMatrix, type=pod_type, node=node, limit=MAX_LIMIT)
    while (cursor := matrix.nodes.next) is not None:
        further = api.get("/rewards", RewardMatrix, type=pod_type, node=node, limit=MAX_LIMIT, cursor=cursor)
        nodes = replace(further.nodes, items=[*matrix.nodes.items, *further.nodes.items])
        cells = [[*known, *more] for known, more in zip(matrix.cells, further.cells, strict=True)]
        matrix = replace(matrix, nodes=nodes, cells=cells)
    return matrix


_HEADER = ["TYPE", "NODE", "VALUE", "REWARD", "INTERVAL", "BLAME", "ELSEWHERE", "SAMPLES", "INCIDENTS"]


def reward_text(matrix: RewardMatrix, pod_type: str, node: str) -> str:
    """Writes a line for each type and node, the worst node of each type first."""
    rows = [_reward_rows(name, matrix, cells) for name, cells in zip(matrix.pod_types, matrix.cells, strict=True)]
    if not rows:
        selection = f" of type {pod_type}" * bool(pod_type) + f" on node {node}" * bool(node)
        return f"no node reports rewards{selection}\n"
    return output.table([_HEADER, *(line for lines in rows for line in lines)])


def _reward_rows(pod_type: str, matrix: RewardMatrix, cells: Sequence[RewardCell | None]) -> list[list[str]]:
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


def page_options(add: Options) -> None:
    add = add.without_environment()
    add.argument("port", "port of 127.0.0.1 that the page is served on", API_PORT, port_number)
    kubectl.options(add)


def page_main(args: argparse.Namespace) -> int:
    """Becomes kubectl, which forwards the page's port until it is interrupted."""
    ours, namespace = Kubectl.of(args), args.extender_namespace
    pods = extender_pods(ours, namespace)
    # The page shows what one replica decided, and kube-scheduler asks one: that which decided last.
    pod = max(pods, key=lambda pod: _newest_decision(ours, pod)) if len(pods) > 1 else pods[0]
    print(f"open http://127.0.0.1:{args.port}/ (Ctrl-C ends it)", flush=True)
    name = pod["metadata"]["name"]
    ours.become("port-forward", "-n", namespace, f"pod/{name}", f"{args.port}:{API_PORT}", "--address=127.0.0.1")


def _newest_decision(ours: Kubectl, pod: Mapping[str, Any]) -> str:
    """Says when the replica decided last; "": never, or it does not say."""
    with contextlib.suppress(CommandFailed), forwarded(ours, pod, API_PORT, "") as api:
        kept = api.get("/decisions", ListPage[DecisionRow], limit=1)
        return kept.items[0].at if kept.items else ""
    return ""
