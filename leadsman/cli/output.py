"""What a command prints: a table as kubectl's, wide, JSON or YAML; again and again with --watch.

Colour marks a status on a terminal, unless NO_COLOR is set (https://no-color.org) or TERM is dumb.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

import msgspec
import yaml

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import one_of, positive_number
from leadsman.runtime.text_table import align_columns

FORMATS = ("table", "wide", "json", "yaml")

STATUS = "STATUS"
"""The title of the column that is coloured."""

_RED, _GREEN, _YELLOW = "31", "32", "33"
_COLOURS = {
    "fresh": _GREEN,
    "ok": _GREEN,
    "measured": _GREEN,
    "provisional": _YELLOW,
    "unknown": _YELLOW,
    "warning": _YELLOW,
    "stale": _RED,
    "error": _RED,
    "lost": _RED,
}
_CLEAR_SCREEN = "\x1b[H\x1b[2J"


def options(add: Options, *, json: str, watch: bool = True) -> None:
    """json: what -o json shows. watch: also --watch and its interval."""
    add.parser.add_argument(
        "-o",
        "--output",
        help=f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]} (default table); json: {json}",
        type=one_of(*FORMATS),
        default=FORMATS[0],
        metavar="FORMAT",
    )
    add.parser.add_argument("--json", help="the same as -o json", action="store_const", dest="output", const="json")
    if watch:
        add.parser.add_argument("-w", "--watch", help="show it again and again, until Ctrl-C", action="store_true")
        add.argument(
            "interval-seconds", "with --watch: seconds between two looks (default {default})", "2", positive_number
        )


def document(value: object, output: str) -> str:
    """The value as JSON or YAML, with a newline at its end."""
    plain = msgspec.to_builtins(value)
    if output == "yaml":
        return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n"


def table(rows: Sequence[Sequence[str]], *, colour: bool = False) -> str:
    """Aligned columns under the titles of the first row. colour: for a status that says how good or bad it is."""
    lines = align_columns(rows)
    if colour and STATUS in rows[0]:
        column = list(rows[0]).index(STATUS)
        start = sum(max(len(row[before]) for row in rows) + 2 for before in range(column))
        lines = [_painted(line, start, row[column]) for line, row in zip(lines, rows, strict=True)]
    return "\n".join(lines) + "\n"


def _painted(line: str, start: int, status: str) -> str:
    if status not in _COLOURS:
        return line
    end = start + len(status)
    return f"{line[:start]}\x1b[{_COLOURS[status]}m{status}\x1b[0m{line[end:]}"


def has_colour(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def show(args: argparse.Namespace, render: Callable[[], str]) -> None:
    """Prints what `render` returns; with --watch until it is interrupted, on a terminal in place."""
    while True:
        text = render()
        if args.watch and sys.stdout.isatty():
            sys.stdout.write(_CLEAR_SCREEN)
        # By line: of one long write that a closed pipe cuts short, Python says nothing.
        sys.stdout.writelines(text.splitlines(keepends=True))
        sys.stdout.flush()
        if not args.watch:
            return
        time.sleep(args.interval_seconds)
