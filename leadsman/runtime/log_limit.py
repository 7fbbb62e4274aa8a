"""Limits the rate of log lines that a stranger can cause."""

import logging
import time
from collections.abc import Callable

from leadsman.runtime.token_bucket import TokenBucket

LINES_PER_SECOND, LINES_BURST = 1 / 60, 10


class LogLimit(logging.Filter):
    """Lets ten lines of a kind through, then one a minute, which says how many were left out.

    A kind is a line's format, so write what a stranger chooses as an argument.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._tokens: dict[str, TokenBucket] = {}
        self._left_out: dict[str, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = str(record.msg)
        if kind not in self._tokens:
            self._tokens[kind] = TokenBucket(LINES_PER_SECOND, LINES_BURST, self._clock)
        if not self._tokens[kind].try_take():
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return False
        if left_out := self._left_out.pop(kind, 0):
            record.msg, record.args = f"{kind} (%d more lines like this were left out)", (*_args(record), left_out)
        return True


def _args(record: logging.LogRecord) -> tuple[object, ...]:
    return record.args if isinstance(record.args, tuple) else ()
