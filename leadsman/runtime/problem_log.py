"""Logs a problem that lasts when it begins, when it becomes another one and when it is over."""

import logging

from leadsman.runtime.redaction import hide_credentials


class ProblemLog:
    """Remembers the present problem of one piece of work, and logs each change once.

    text: the problem, for health checks and pages; "" while there is none.

    A loop calls `report` at each failure and `clear` at each success. An exception of the same type is the same
    problem, because its text may carry a port or a time that differs each time; a plain text is the same when it is
    equal. Repeats are logged at DEBUG.
    """

    def __init__(self, logger: logging.Logger, begins: str, ends: str, level: int = logging.WARNING) -> None:
        """begins: the line's start, which the problem follows after a colon: what does not work, and what happens
        meanwhile. ends: the line when it works again, at INFO. level: of a new problem."""
        self.text = ""
        self._logger, self._begins, self._ends, self._level = logger, begins, ends, level
        self._kind = ""

    def report(self, problem: str | Exception, *, kind: str = "", traceback: bool = False) -> None:
        """Notes a problem. kind: what makes two the same when neither type nor text does. traceback: log it too."""
        name = problem if isinstance(problem, str) else type(problem).__name__
        before, self._kind = self._kind, kind or name
        self.text = hide_credentials(name if isinstance(problem, str) else f"{name}: {problem}")
        level = logging.DEBUG if self._kind == before else self._level
        error = problem if traceback and isinstance(problem, Exception) else None
        self._logger.log(level, "%s: %s", self._begins, self.text, exc_info=error)

    def clear(self) -> None:
        if self.text:
            self._logger.info("%s", self._ends)
        self.text = self._kind = ""
