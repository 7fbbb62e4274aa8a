"""Tables, their colour, and documents."""

import io
import re
import sys

import pytest

from leadsman.cli import output

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
