"""Tables, their colour, and documents."""

import io
import re
import sys

import pytest

from leadsman.cli import output
from leadsman.runtime.text_table import printable

ROWS = [["NAME", "STATUS", "AGE"], ["stale", "fresh", "1s"], ["edge-12", "stale", "20s"], ["c", "other", "-"]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_only_the_status_column_is_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    output.write(output.table(ROWS) + "\nfresh: text below the table\n")
    coloured = terminal.getvalue()
    assert re.sub("\x1b\\[[0-9]+m", "", coloured) == output.table(ROWS) + "\nfresh: text below the table\n"
    assert "\nstale    \x1b[32mfresh\x1b[0m   1s\n" in coloured
    assert "\nedge-12  \x1b[31mstale\x1b[0m   20s\n" in coloured
    assert coloured.count("\x1b[0m") == 2


def test_control_characters_are_shown_and_a_cell_stays_one_line() -> None:
    assert printable("a\x1b[31mb\x9b\r\n\u202eé") == "a\\x1b[31mb\\x9b\\r\n\\u202eé"
    assert output.table([["A"], ["x\ny"]]).splitlines() == ["A", "x\\ny"]
