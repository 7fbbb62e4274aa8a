"""`leadsman delay --since`: the past of a pair, or what changed since, as the page's API has it."""

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from urllib.parse import quote

import msgspec
from msgspec import Struct

from extender.api.contract.delays import (
    SPANS_SECONDS,
    DelayChanges,
    HistoryOrigin,
    NodeChange,
    PairChange,
    PairChanges,
    PairHistory,
    RttAt,
)
from extender.api.moments import iso
from leadsman.cli import output
from leadsman.cli.extender_client import ExtenderClient
from leadsman.cli.extender_replicas import API_PORT, Replica, extender_pods
from leadsman.cli.flags.values import THROUGH_KUBECTL
from leadsman.cli.kubectl import Kubectl
from leadsman.runtime.text_table import format_number

PARTS = 12
"""Rows of a pair's table."""

MOST_ROWS = 10

_HINT = "An extender serves it at --api-listen; name it with --page URL."


def show(args: argparse.Namespace) -> None:
    """Of the pair that the flags name, else of all. ExtenderError."""
    with _page(args) as page:
        output.show(args, lambda: _pair(args, page) if args.source else _changes(args, page))


@contextlib.contextmanager
def _page(args: argparse.Namespace) -> Iterator[ExtenderClient]:
    if args.extender != THROUGH_KUBECTL:
        yield ExtenderClient([Replica(args.page, args.page)], _HINT)
        return
    kubectl, namespace = Kubectl.of(args), args.extender_namespace
    pod = extender_pods(kubectl, namespace)[0]["metadata"]["name"]
    with kubectl.port_forward(namespace, pod, API_PORT) as port:
        yield ExtenderClient([Replica(pod, f"http://127.0.0.1:{port}", forwarded=True)], _HINT)


def _pair(args: argparse.Namespace, page: ExtenderClient) -> str:
    path = f"/api/v1/delays/pairs/{quote(args.source, safe='')}/{quote(args.target, safe='')}/history"
    history = msgspec.convert(page.json(f"{path}?since={args.since}"), PairHistory)
    if args.output in ("json", "yaml"):
        return output.document(history, args.output)
    size = max(1, -(-len(history.items) // PARTS))
    parts = [history.items[at : at + size] for at in range(0, len(history.items), size)]
    rows = [["FROM", "UNTIL", "LEAST-MS", "MEDIAN-MS", "LARGEST-MS"], *map(_part, parts)]
    title = f"{args.source} and {args.target}, the slower direction, {_origin_text(history.origin)}\n"
    return title + output.table(rows)


def _part(moments: Sequence[RttAt]) -> list[str]:
    values = [moment.rtt_ms for moment in moments if moment.rtt_ms is not None]
    numbers = [min(values), statistics.median(values), max(values)] if values else []
    return [moments[0].at, moments[-1].at, *([format_number(number) for number in numbers] or ["-"] * 3)]


class Changes(Struct, frozen=True):
    """What -o json shows of all."""

    nodes: DelayChanges
    pairs: PairChanges


def _changes(args: argparse.Namespace, page: ExtenderClient) -> str:
    now = time.time()
    moments = f"from={iso(now - SPANS_SECONDS[args.since])}&to={iso(now)}"
    nodes = msgspec.convert(page.json(f"/api/v1/delays/change?{moments}&limit={MOST_ROWS}"), DelayChanges)
    pairs = msgspec.convert(page.json(f"/api/v1/delays/change/pairs?{moments}"), PairChanges)
    if args.output in ("json", "yaml"):
        return output.document(Changes(nodes, pairs), args.output)
    titles = ["BEFORE-MS", "AFTER-MS", "CHANGE-MS"]
    node_rows = [[each.node, *_numbers(each)] for each in nodes.items]
    pair_rows = [[each.source, each.target, *_numbers(each)] for each in (pairs.items or ())[:MOST_ROWS]]
    of_pairs = output.table([["FROM", "TO", *titles], *pair_rows]) if pair_rows else f"pairs: {pairs.note or 'none'}\n"
    origin = f"{nodes.from_} against {nodes.to}, {_origin_text(nodes.origin)}\n"
    return f"{origin}{output.table([['NODE', *titles], *node_rows])}\n{of_pairs}"


def _numbers(change: NodeChange | PairChange) -> list[str]:
    return [format_number(change.before_ms), format_number(change.after_ms), f"{change.change_ms:+.3g}"]


def _origin_text(origin: HistoryOrigin) -> str:
    """Why it is not from Prometheus goes to standard error."""
    if origin.note:
        print(origin.note, file=sys.stderr)
    step = f", a value each {origin.step_seconds} s" if origin.step_seconds else ""
    return (f"from this replica, since {origin.since}" if origin.source == "replica" else "from Prometheus") + step
