"""Follows delays in two files, a matrix and its metadata, read again when they change."""

import logging
from collections.abc import Sequence
from pathlib import Path

from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.watched_files import WatchedFiles
from leadsman.sources.delay.matrix import SOURCE, DelayMatrix, parse_matrix

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 256 << 20
"""5,000 nodes with 8 characters a value have 200 MB."""


class MatrixFiles:
    """Follows the files.

    current: the matrix in use.
    problem: why the files as they are now are not in use.

    The first reading raises leadsman.runtime.watched_files.UnusableFile.
    """

    source = SOURCE

    def __init__(self, matrix: Path, metadata: Path) -> None:
        self.problem = ProblemLog(
            log,
            "cannot use the delay matrix files; the last good matrix stays in use",
            "the delay matrix files are valid again",
            logging.ERROR,
        )
        self._files = WatchedFiles([matrix, metadata], _parse, self.problem, MAX_FILE_BYTES)
        self._log_size()

    @property
    def current(self) -> DelayMatrix:
        return self._files.current

    def poll(self) -> None:
        """Reads the files if one has changed."""
        if self._files.poll():
            self._log_size()

    async def run(self) -> None:
        """Polls until cancelled."""
        async for _ in self._files.changes():
            self._log_size()

    def _log_size(self) -> None:
        log.info("delay matrix in use: %d nodes", len(self.current.rows))


def _parse(contents: Sequence[bytes]) -> DelayMatrix:
    matrix, metadata = (content.decode() for content in contents)
    return parse_matrix(matrix, metadata)
