"""Tables, their colour, and documents."""

import io
import json
import re
import sys

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize(
    ("stream", "environ", "expected"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colour_is_for_terminals_that_did_not_refuse_it(stream: io.StringIO, environ: dict, expected: bool) -> None:
    assert output.has_colour(stream, environ) is expected


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("abc-: é", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(PLAIN)
def test_json_and_yaml_are_read_back_alike(value: object) -> None:
    assert json.loads(output.document(value, "json")) == value == yaml.safe_load(output.document(value, "yaml"))
