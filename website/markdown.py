"""Writes Markdown from the code's own words."""

import inspect
import re
from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Returns a table's lines, and an empty one."""
    return [_row(header), _row(["---"] * len(header)), *map(_row, rows), ""]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    """Escapes what would end the cell or begin a tag; in code, which comes second in each pair, only the former."""
    words = re.split(r"(`[^`]*`)", text)
    words[::2] = [each.replace("|", "&#124;").replace("<", "&lt;") for each in words[::2]]
    words[1::2] = [each.replace("|", r"\|") for each in words[1::2]]
    return "".join(words)


def code(text: str) -> str:
    """Marks text as code; "" stays "": an empty cell."""
    return f"`{text}`" if text else ""


def paragraphs(text: str | None) -> str:
    """Writes a docstring, whose lines `field: …` stay lines."""
    return re.sub(r"(?<!\n)\n(?=\w[\w, ]*: )", "  \n", inspect.cleandoc(text or "").replace("<", "&lt;"))
