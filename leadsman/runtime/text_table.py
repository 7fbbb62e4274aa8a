"""Text for people: columns, numbers, and what a terminal may show."""

from collections.abc import Mapping, Sequence


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with each column as wide as its widest cell, two spaces between, nothing after the last."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    padded = (map(str.ljust, row, widths) for row in rows)
    return ["  ".join(cells).rstrip() for cells in padded]


def format_counts(counts: Mapping[str, int]) -> str:
    """ "3 delay to edge-1 over 25 ms, 2 no such node edge-9", as kube-scheduler puts it."""
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def format_number(value: float) -> str:
    """Four digits that count, never an exponent before 10^9."""
    return f"{value:.0f}" if 1_000 <= abs(value) < 1e9 else f"{value:.4g}"


def printable(text: str) -> str:
    """The text with each control character but the line's end as an escape: a terminal would obey it."""
    return "".join(each if each == "\n" or each.isprintable() else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()
