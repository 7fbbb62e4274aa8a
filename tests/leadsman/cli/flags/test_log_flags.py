"""Log lines as text and as JSON."""

import json
import logging
import sys

from leadsman.cli.flags.process_flags import JsonFormatter


def record(message: str, **more: object) -> logging.LogRecord:
    made = logging.LogRecord("leadsman.x", logging.WARNING, "x.py", 1, message, (), None)
    made.created = 1_700_000_000.0625
    made.__dict__.update(more)
    return made


def test_a_json_line_is_one_object_with_the_same() -> None:
    line = JsonFormatter().format(record('a "quote"\nand é'))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.062Z",
        "level": "warning",
        "logger": "leadsman.x",
        "message": 'a "quote"\nand é',
    }


def test_a_traceback_is_a_field_of_the_line_and_neither_shows_credentials() -> None:
    try:
        raise ValueError("http://user:secret@host failed")
    except ValueError:
        line = JsonFormatter().format(record("calling http://user:secret@host", exc_info=sys.exc_info()))
    assert "ValueError: http://<redacted>@host failed" in json.loads(line)["exception"]
    assert "secret" not in line
