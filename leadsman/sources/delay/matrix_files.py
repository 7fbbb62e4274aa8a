"""Delays from two files, read again when they change.

A ConfigMap changes by swapping a symlink, so identity is the inode as well as time and size, and what decides is the
content. The two files may change one after the other: until both fit, the last good pair stays.
"""

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

from leadsman.runtime.daemon_thread import run_in_daemon_thread
from leadsman.sources.delay.matrix import SOURCE, BadMatrix, DelayMatrix, parse_matrix

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0

MAX_FILE_BYTES = 256 << 20
"""5,000 nodes with 8 characters a value have 200 MB."""

_FileIdentity = tuple[int, int, int]


class MatrixFiles:
    """problem: why what the files hold is not current; "" when it is.

    The first reading raises BadMatrix, so that a slip is seen at start and not in the log of a running extender.
    """

    source = SOURCE
    current: DelayMatrix

    def __init__(self, matrix: Path, metadata: Path) -> None:
        self._paths = (matrix, metadata)
        self._seen: tuple[_FileIdentity, ...] | None = None
        self._digest = b""
        self.problem = ""
        self._load()

    def poll(self) -> None:
        """Reads the files if one has changed. Never raises: `problem` says what is wrong."""
        try:
            self._load()
        except BadMatrix as error:
            if self.problem != str(error):
                log.error("static delays refused, those before stay: %s", error)
            self.problem = str(error)

    async def run(self) -> None:
        """Polls until cancelled, on a thread: a large matrix takes seconds."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await run_in_daemon_thread(self.poll, "leadsman-static")

    def _load(self) -> None:
        """A file that cannot be read is tried again each time, content that cannot be used only when it changed."""
        before, self._seen = self._seen, None
        seen = tuple(_file_identity(path) for path in self._paths)
        contents = [_content(path) for path in self._paths] if seen != before else []
        self._seen = seen
        if contents:
            self._use(contents)

    def _use(self, contents: Sequence[bytes]) -> None:
        digest = hashlib.sha256(b"".join(hashlib.sha256(content).digest() for content in contents)).digest()
        if digest != self._digest:
            self.current = self._parsed(contents)
            log.info("delays of %d nodes from %s", len(self.current.rows), self._paths[0])
        self._digest, self.problem = digest, ""

    def _parsed(self, contents: Sequence[bytes]) -> DelayMatrix:
        try:
            matrix, metadata = (content.decode() for content in contents)
            return parse_matrix(matrix, metadata)
        except (BadMatrix, UnicodeDecodeError) as error:
            raise BadMatrix(f"{' with '.join(map(str, self._paths))}: {error}") from error


def _file_identity(path: Path) -> _FileIdentity:
    try:
        stat = path.stat()
    except OSError as error:
        raise BadMatrix(f"{path}: {error.strerror}; want a file that can be read") from error
    if stat.st_size > MAX_FILE_BYTES:
        raise BadMatrix(f"{path}: {stat.st_size} bytes; want at most {MAX_FILE_BYTES}")
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadMatrix(f"{path}: {error.strerror}; want a file that can be read") from error
