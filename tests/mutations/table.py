"""All rows, read from `rows/`, one file a subject. The lines of one, by how far they are indented:

agent/reporting.py          the file that holds the defence, once for all that follow
  what is lost              in words
    - the text              in the file exactly once; may be several lines
    + what is there instead; without this line nothing
    agent/test_reporting.py::test_that_must_turn_red
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Mutation(NamedTuple):
    """file: below the root. test: the pytest node, below tests/."""

    defence: str
    file: str
    text: str
    instead: str
    test: str


def _rows(subject: Path) -> Iterator[Mutation]:
    file = defence = ""
    lines: dict[str, list[str]] = {"-": [], "+": []}
    for line in subject.read_text().splitlines():
        if line.startswith(("    - ", "    + ")):
            lines[line[4]].append(line[6:])
        elif line.startswith("    "):
            yield Mutation(defence, file, "\n".join(lines["-"]), "\n".join(lines["+"]), line.strip())
            lines = {"-": [], "+": []}
        elif line.startswith("  "):
            defence = line.strip()
        elif line and not line.startswith("#"):
            file = line


MUTATIONS = [row for subject in sorted(Path(__file__).with_name("rows").glob("*.txt")) for row in _rows(subject)]
