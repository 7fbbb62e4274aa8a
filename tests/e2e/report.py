"""What the rows of one run saw: the table of benchmarks/end-to-end.md, line by line."""

from collections.abc import Sequence

from msgspec import Struct

COLUMNS = """\
| done | s | sent | misplaced | lost | state not whole s | longest wait s | seen |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


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
        waits = f"{self.not_whole_seconds:.1f} | {self.longest_wait_seconds:.1f}"
        counts = f"{self.sent:,} | {self.misplaced} | {self.lost} | {waits}" if self.sent else " |  |  |  | "
        said = " ".join(self.said.replace("|", "\\|").split())
        seen = said if self.kept else f"**broken** {said}".rstrip()
        return f"| {self.title} | {self.seconds:.0f} | {counts} | {seen} |"


def total(results: Sequence[Result]) -> Result:
    """All rows in one."""
    return Result(
        "all rows",
        all(each.kept for each in results),
        sum(each.seconds for each in results),
        sent=sum(each.sent for each in results),
        misplaced=sum(each.misplaced for each in results),
        lost=sum(each.lost for each in results),
        not_whole_seconds=max((each.not_whole_seconds for each in results), default=0.0),
        longest_wait_seconds=max((each.longest_wait_seconds for each in results), default=0.0),
    )
