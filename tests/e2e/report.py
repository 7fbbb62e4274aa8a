"""What the rows of one run saw: the table, line by line, and as a file after each row."""

from pathlib import Path

import msgspec
from msgspec import Struct

COLUMNS = (
    f"{'row':46}{'seconds':>8}{'sent':>7}{'misplaced':>11}{'lost':>6}{'state not whole s':>19}{'longest wait s':>16}"
)


class Result(Struct, frozen=True):
    """Of a row.

    kept: whether what is promised about it held.
    said: what was seen, or why it broke.
    sent, misplaced, lost: bounded pods; a row without a stream sends none.
    not_whole_seconds: the longest time for which an extender had no fresh report of a living node.
    longest_wait_seconds: of a pod, from its creation to its binding.
    """

    title: str
    kept: bool
    seconds: float
    said: str = ""
    sent: int = 0
    misplaced: int = 0
    lost: int = 0
    not_whole_seconds: float = 0.0
    longest_wait_seconds: float = 0.0

    def __str__(self) -> str:
        counts = f"{self.sent:>7}{self.misplaced:>11}{self.lost:>6}" if self.sent else " " * 24
        waits = f"{self.not_whole_seconds:>19.1f}{self.longest_wait_seconds:>16.1f}" if self.sent else ""
        parts = [f"{self.title:46}{self.seconds:>8.1f}{counts}{waits}", "" if self.kept else "BROKEN", self.said]
        return "  ".join(filter(None, parts)).rstrip()


class Report(Struct):
    """date: of the run's begin, ISO. machine: cores and their load. command: which ran it."""

    date: str
    machine: str
    kubernetes: str
    command: str
    results: list[Result]

    @property
    def total(self) -> Result:
        """All rows in one."""
        return Result(
            "all rows",
            all(each.kept for each in self.results),
            sum(each.seconds for each in self.results),
            sent=sum(each.sent for each in self.results),
            misplaced=sum(each.misplaced for each in self.results),
            lost=sum(each.lost for each in self.results),
            not_whole_seconds=max((each.not_whole_seconds for each in self.results), default=0.0),
            longest_wait_seconds=max((each.longest_wait_seconds for each in self.results), default=0.0),
        )

    def save(self, path: Path) -> None:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")
