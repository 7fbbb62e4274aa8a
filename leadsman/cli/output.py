"""Prints a command's result: a table as kubectl's, wide, JSON or YAML; again and again with --watch."""

import argparse
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import msgspec
import yaml

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import one_of
from leadsman.runtime.text_table import align_columns, one_line, printable, unescaped

T = TypeVar("T")

FORMATS = ("table", "wide", "json", "yaml")

_CLEAR_SCREEN = "\x1b[H\x1b[2J"


def options(add: Options, *, json: str, watch: bool = True) -> None:
    """Adds the flags of the output. json: what -o json shows. watch: also --watch and its interval."""
    add.parser.add_argument(
        "-o",
        "--output",
        help=f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]} (default table); json: {json}",
        type=one_of(*FORMATS),
        default=FORMATS[0],
        metavar="FORMAT",
    )
    if watch:
        add.parser.add_argument("-w", "--watch", help="show it again and again, until Ctrl-C", action="store_true")
        add.argument("interval-seconds", "with --watch: seconds between two looks", 2.0)


def document(value: object, output: str) -> str:
    """Returns the value as JSON or YAML, with a newline at its end."""
    plain = msgspec.to_builtins(value)
    if output == "yaml":
        return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Aligns columns under the titles of the first row. A cell stays one line."""
    return "\n".join(align_columns([[one_line(cell) for cell in row] for row in rows])) + "\n"


PROGRESS_SECONDS = 1.0
"""A command says once in this time what it is doing; one that is done sooner says nothing."""


@contextmanager
def progress(doing: str) -> Iterator[Callable[[str], None]]:
    """Shows each second, on a terminal alone, what a long command is doing and for how long; then clears the line.

    Yields a function that says what it does next. Planners compute without a break, so a thread shows it.
    """
    began, now, ended = time.monotonic(), deque([doing], 1), threading.Event()

    def show() -> None:
        while not ended.wait(PROGRESS_SECONDS):
            unescaped(sys.stderr).write(f"\r\x1b[K{time.monotonic() - began:.0f} s: {printable(now[-1])}")
            sys.stderr.flush()
        unescaped(sys.stderr).write("\r\x1b[K")

    shower = threading.Thread(target=show, name="progress", daemon=True)
    if sys.stderr.isatty():
        shower.start()
    try:
        yield now.append
    finally:
        ended.set()
        if shower.ident is not None:
            shower.join()


def show(args: argparse.Namespace, fetch: Callable[[], T], text: Callable[[T], str]) -> None:
    """Prints what `fetch` returns, as data or by `text`; with --watch until it is interrupted."""
    while True:
        found = fetch()
        shown = document(found, args.output) if args.output in ("json", "yaml") else text(found)
        if args.watch and sys.stdout.isatty():
            unescaped(sys.stdout).write(_CLEAR_SCREEN)
        write(shown)
        if not args.watch:
            return
        time.sleep(args.interval_seconds)


def write(text: str) -> None:
    """Prints lines one by one: when a closed pipe cuts a long write short, Python says nothing."""
    sys.stdout.writelines(text.splitlines(keepends=True))
    sys.stdout.flush()
