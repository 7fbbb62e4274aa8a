import logging

import pytest

from leadsman.runtime.problem_log import ProblemLog

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
