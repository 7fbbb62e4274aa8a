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
