import logging
import sys

import pytest

from leadsman.runtime.redaction import RedactingFormatter, hide_credentials


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:s3cret@host:2379/x failed", "https://<redacted>@host:2379/x failed"),
        ("['http://tok@a', 'http://b']", "['http://<redacted>@a', 'http://b']"),
        ("http://p@ss@a/", "http://<redacted>@a/"),
        ("http://a/q?x=1&access_token=s3cret&y=2", "http://a/q?x=1&access_token=<redacted>&y=2"),
        ("http://a/q?query=up", "http://a/q?query=up"),
        ('{"url":"https://me:s3cret@host","x":"a"}', '{"url":"https://<redacted>@host","x":"a"}'),
        ("mail me@host", "mail me@host"),
    ],
)
def test_credentials_in_urls_are_hidden_and_nothing_else(text: str, shown: str) -> None:
    assert hide_credentials(text) == shown


def test_a_log_line_with_its_traceback_hides_them() -> None:
    try:
        raise ValueError("https://me:s3cret@host")
    except ValueError:
        record = logging.LogRecord("n", 30, "f", 1, "%s", ("http://a?token=s3cret",), sys.exc_info())
    assert "s3cret" not in RedactingFormatter().format(record)


FORGED = "bad\n2026-01-01T00:00:00.000Z ERROR forged: line\x1b[31m"


def test_what_a_stranger_wrote_neither_breaks_a_log_line_nor_begins_one_in_its_traceback() -> None:
    try:
        raise ValueError(FORGED)
    except ValueError:
        record = logging.LogRecord("n", 30, "f", 1, "%s", (FORGED,), sys.exc_info())
    message, *traceback = RedactingFormatter().format(record).split("\n")
    assert message == "bad\\n2026-01-01T00:00:00.000Z ERROR forged: line\\x1b[31m"
    assert [line for line in traceback if not line.startswith("  ")] == []
