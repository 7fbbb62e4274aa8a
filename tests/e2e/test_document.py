"""The table in the docs is that of the reports given."""

from tests.e2e.document import markdown
from tests.e2e.report import Report, Result


def report(command: str, *results: Result) -> Report:
    return Report("2026-01-02T03:04+00:00", "2 cores", "v1.36.2", command, list(results))


def test_a_row_of_a_later_report_takes_the_place_of_the_earlier_one() -> None:
    broken = Result("drain", False, 3.0, "TimeoutError")
    first = report("first", broken, Result("update", True, 2.0, sent=5, lost=1, not_whole_seconds=1.5))
    second = report("second", Result("drain", True, 4.0, sent=7))
    lines = "".join(markdown([first, second])).splitlines()
    assert lines[0] == "`first`; then `second`, 2026-01-02, Kubernetes v1.36.2, 2 cores:"
    assert lines[-3:] == [
        "| drain | 4 | 7 | 0 | 0 | 0.0 | 0.0 |  |",
        "| update | 2 | 5 | 0 | 1 | 1.5 | 0.0 |  |",
        "| all rows | 6 | 12 | 0 | 1 | 1.5 | 0.0 |  |",
    ]
