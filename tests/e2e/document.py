"""Writes reports into the docs as a table: python -m tests.e2e.document REPORT…

A row that a later report has too takes the place of the earlier one.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import structs

from tests.e2e.images import ROOT
from tests.e2e.report import Report, Result

PAGE = ROOT / "benchmarks/end-to-end.md"
BEGIN, END = "<!-- end to end: written by `python -m tests.e2e.document` -->\n", "<!-- /end to end -->\n"


def main(paths: Sequence[str]) -> None:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    table = "".join(markdown([msgspec.json.decode(Path(each).read_bytes(), type=Report) for each in paths]))
    PAGE.write_text(f"{before}{BEGIN}{table}{END}{after}")


def markdown(reports: Sequence[Report]) -> Iterator[str]:
    """Of one report or more."""
    last = reports[-1]
    commands = "; then ".join(f"`{each.command}`" for each in reports)
    yield f"{commands}, {last.date.partition('T')[0]}, Kubernetes {last.kubernetes}, {last.machine}:\n\n"
    yield "| done | s | sent | misplaced | lost | state not whole s | longest wait s | seen |\n"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
    rows = {result.title: result for report in reports for result in report.results}
    merged = structs.replace(last, results=list(rows.values()))
    for result in [*merged.results, merged.total]:
        yield f"| {' | '.join(_cells(result))} |\n"


def _cells(result: Result) -> Iterator[str]:
    yield result.title
    yield f"{result.seconds:.0f}"
    counts = (f"{result.sent:,}", f"{result.misplaced}", f"{result.lost}")
    waits = (f"{result.not_whole_seconds:.1f}", f"{result.longest_wait_seconds:.1f}")
    yield from (*counts, *waits) if result.sent else [""] * 5
    said = " ".join(result.said.replace("|", "\\|").split())
    yield said if result.kept else f"**broken** {said}".rstrip()


if __name__ == "__main__":
    main(sys.argv[1:])
