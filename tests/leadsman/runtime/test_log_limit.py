import logging
import sys

import pytest

from leadsman.runtime.log_limit import LINES_BURST, LogLimit
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.redaction import RedactingFormatter, hide_credentials


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def logger(clock: Clock) -> logging.Logger:
    """A logger of its own, so that no other test has used up its lines."""
    limited = logging.Logger("limited")
    limited.parent = logging.getLogger()
    limited.addFilter(LogLimit(clock))
    return limited


def test_a_flood_is_ten_lines_and_then_one_a_minute(
    logger: logging.Logger, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for second in range(601):
        clock.now = float(second)
        for number in range(10):
            logger.warning("refused %s", number)
    assert len(caplog.messages) == LINES_BURST + 10


log = logging.getLogger("loop")


@pytest.fixture
def problem(caplog: pytest.LogCaptureFixture) -> ProblemLog:
    caplog.set_level(logging.INFO)
    return ProblemLog(log, "cannot read the list", "the list is read again")


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_a_problem_that_lasts_is_logged_once_and_its_end_once(
    problem: ProblemLog, caplog: pytest.LogCaptureFixture
) -> None:
    problem.clear()
    problem.report(OSError("port 40001"))
    problem.report(OSError("port 40002"))
    problem.clear()
    problem.clear()
    assert lines(caplog) == [
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
