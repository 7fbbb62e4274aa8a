import logging
import sys

import pytest

from leadsman.runtime.log_limit import LINES_BURST, LogLimit
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.redaction import RedactingFormatter, hide_credentials


def test_a_flood_is_ten_lines_and_then_one_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now, logger = [0.0], logging.Logger("of this test")
    logger.parent = logging.getLogger()
    logger.addFilter(LogLimit(lambda: now[0]))
    for second in range(601):
        now[0] = float(second)
        for number in range(10):
            logger.warning("refused %s", number)
    assert len(caplog.messages) == LINES_BURST + 10


def test_a_problem_that_lasts_is_logged_once_and_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    problem = ProblemLog(logging.getLogger("loop"), "cannot read the list", "the list is read again")
    problem.clear()
    problem.report(OSError("port 40001"))
    problem.report(OSError("port 40002"))
    problem.clear()
    problem.clear()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "cannot read the list: OSError: port 40001"),
        ("INFO", "the list is read again"),
    ]


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


def formatted(text: str) -> str:
    """A log line with a traceback, in both of which the text stands."""
    try:
        raise ValueError(text)
    except ValueError:
        return RedactingFormatter().format(logging.LogRecord("n", 30, "f", 1, "%s", (text,), sys.exc_info()))


def test_a_log_line_with_its_traceback_hides_them() -> None:
    assert "s3cret" not in formatted("https://me:s3cret@host http://a?token=s3cret")


def test_what_a_stranger_wrote_neither_breaks_a_log_line_nor_begins_one_in_its_traceback() -> None:
    message, *traceback = formatted("bad\n2026-01-01T00:00:00.000Z ERROR forged: line\x1b[31m").split("\n")
    assert message == "bad\\n2026-01-01T00:00:00.000Z ERROR forged: line\\x1b[31m"
    assert [line for line in traceback if not line.startswith("  ")] == []
