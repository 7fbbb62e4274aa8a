"""Which nodes changed between two tables of node states, where the one was made from the other.

Of 5,000 nodes some eight report between two decisions. Comparing all their states took a quarter of a decision, so
tables that follow one another share a log of the names that changed, and only those are compared.
"""

from collections.abc import Collection, Iterable, Mapping


class LogPosition:
    """Where a table stands in a log. How a table came about is no part of what it says, so all positions are equal."""

    __slots__ = ("_end", "_log", "_table")

    def __init__(self, table: Mapping[str, object]) -> None:
        """At the beginning of a log of its own."""
        self._table, self._end = table, 0
        self._log: list[str] = []

    def next(self, before: Mapping[str, object], after: Mapping[str, object], changed: Iterable[str]) -> "LogPosition":
        """The position of `after`, which is `before` with these nodes changed. It is in a log of its own when this
        position is another table's, when it was continued already, and when the log has more names than nodes."""
        position = LogPosition(after)
        if self._table is before and self._end == len(self._log) <= len(before):
            self._log.extend(changed)
            position._log, position._end = self._log, len(self._log)
        return position

    def changed_since(
        self, other: "LogPosition", tables: tuple[Mapping[str, object], Mapping[str, object]]
    ) -> Collection[str] | None:
        """Every node that changed between the two, whichever was first, and maybe more. None: unknown, as when they are
        not the positions of these tables, that of `other` first."""
        if other._log is not self._log or other._table is not tables[0] or self._table is not tables[1]:
            return None
        begin, end = sorted((self._end, other._end))
        return dict.fromkeys(self._log[begin:end])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogPosition)

    def __hash__(self) -> int:
        return hash(LogPosition)
