"""Writes text for people: columns, numbers, and what a terminal may show."""

import io
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import BinaryIO, TextIO


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligns columns to their widest cells, with two spaces between and nothing after the last."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    padded = (map(str.ljust, row, widths) for row in rows)
    return ["  ".join(cells).rstrip() for cells in padded]


def align_with_reason(rows: Sequence[Sequence[str]], brief: bool, width: int = 100) -> list[str]:
    """Aligns the cells; the last, a reason, goes below its row when it is too long for the width.

    brief: it first loses what it has in brackets, so that a long table has one line a row.
    """
    lines = list[str]()
    for line, row in zip(align_columns([[*row[:-1], "."] for row in rows]), rows, strict=True):
        before, reason = line[:-1], row[-1]
        if brief and len(before) + len(reason) > width:
            reason = re.sub(r" \([^()]*\)", "", reason)
        if len(before) + len(reason) <= width:
            lines.append((before + reason).rstrip())
        else:
            lines += [before.rstrip(), *wrap(f"    {reason}", width)]
    return lines


def wrap(line: str, width: int = 100) -> list[str]:
    """Breaks the line at this width, all indented as it is. A longer word stays whole, so that it can be copied."""
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [
        line
    ]


def format_counts(counts: Mapping[str, int]) -> str:
    """Writes "3 delay to edge-1 over 25 ms, 2 no such node edge-9", as kube-scheduler does."""
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def format_number(value: float) -> str:
    """Writes a number with four digits that count, and never an exponent below 10^9."""
    return f"{value:.0f}" if 1_000 <= abs(value) < 1e9 else f"{value:.4g}"


def printable(text: str) -> str:
    """Escapes each control character but the tab and the line's end: a terminal would obey it."""
    return "".join(each if each in "\t\n" or each.isprintable() else _escaped(each) for each in text)


def one_line(text: str) -> str:
    """Escapes every control character, line ends too: for Events, logs and cells of a table."""
    return printable(text).replace("\n", "\\n")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


class PrintableStream(io.TextIOBase):
    """Writes text to another stream, made printable: it may hold anything that a stranger wrote.

    unescaped: the other stream, for moves of the cursor that are our own.
    """

    def __init__(self, unescaped: TextIO) -> None:
        self.unescaped = unescaped

    def write(self, text: str) -> int:
        return self.unescaped.write(printable(text))

    def flush(self) -> None:
        self.unescaped.flush()

    def fileno(self) -> int:
        return self.unescaped.fileno()

    def isatty(self) -> bool:
        return self.unescaped.isatty()

    @property
    def buffer(self) -> BinaryIO:
        return self.unescaped.buffer


def unescaped(stream: TextIO) -> TextIO:
    """Returns the stream that obeys control characters: below a PrintableStream, or itself."""
    return stream.unescaped if isinstance(stream, PrintableStream) else stream
