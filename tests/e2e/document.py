"""Writes a run's report into the docs as a table: python -m tests.e2e.document /tmp/e2e/table.json"""

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.e2e.images import ROOT
from tests.e2e.report import Report, Result

PAGE = ROOT / "docs/deploying.md"
BEGIN, END = "<!-- end to end: written by `python -m tests.e2e.document` -->\n", "<!-- /end to end -->\n"


def main(report: Path) -> None:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    table = "".join(markdown(msgspec.json.decode(report.read_bytes(), type=Report)))
    PAGE.write_text(f"{before}{BEGIN}{table}{END}{after}")


def markdown(report: Report) -> Iterator[str]:
    yield f"`{report.command}`, {report.date.partition('T')[0]}, Kubernetes {report.kubernetes}, {report.machine}:\n\n"
    yield "| done | s | sent | misplaced | lost | state whole after s | longest wait s | seen |\n"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
    for result in [*report.results, report.total]:
        yield f"| {' | '.join(_cells(result))} |\n"


def _cells(result: Result) -> Iterator[str]:
    yield result.title
    yield f"{result.seconds:.0f}"
    counts = (f"{result.sent:,}", f"{result.misplaced}", f"{result.lost}")
    waits = (f"{result.whole_after_seconds:.1f}", f"{result.longest_wait_seconds:.1f}")
    yield from (*counts, *waits) if result.sent else [""] * 5
    said = " ".join(result.said.replace("|", "\\|").split())
    yield said if result.kept else f"**broken** {said}".rstrip()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
