"""Reads files again when they change; the last good content stays in use.

A ConfigMap or Secret changes by swapping a symlink, so a file's identity is its inode as well as its time and size, and
what decides is the content.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from leadsman.runtime.daemon_thread import run_in_daemon_thread
from leadsman.runtime.problem_log import ProblemLog

T = TypeVar("T")

POLL_SECONDS = 1.0

_Identity = tuple[int, int, int]


class UnusableFile(ValueError):
    """A file cannot be read, is too large, or holds what cannot be used. The text names it and says why."""


class UsableLater(ValueError):
    """The content cannot be used yet, and may be later without a change; a parser raises this."""


class WatchedFiles(Generic[T]):
    """Makes one value of one or more files, which fit together only as they are now.

    current: the value of the last good content.
    problem: why what the files hold now is not in use.

    The first reading raises UnusableFile, so that a mistake is seen at start and not in the log of a running process.
    Files that change one after the other are read at each change: until they fit, `current` stays.
    """

    def __init__(
        self, paths: Sequence[Path], parse: Callable[[Sequence[bytes]], T], problem: ProblemLog, max_bytes: int
    ) -> None:
        """parse: contents in the order of paths → value; raises ValueError when they cannot be used. max_bytes: of a
        file."""
        self.problem = problem
        self.paths, self._parse, self._max_bytes = tuple(paths), parse, max_bytes
        self._identities: tuple[_Identity, ...] | None = None
        self._digest = b""
        self.current: T
        self._use(self._read())

    def poll(self) -> bool:
        """Reads the files if one has changed; tells whether `current` is new. `problem` has what is wrong."""
        try:
            if not self._has_changed():
                return False
            is_new = self._use(self._read())
        except UnusableFile as error:
            self.problem.report(str(error))
            return False
        self.problem.clear()
        return is_new

    async def changes(self) -> AsyncGenerator[T]:
        """Yields each new value until cancelled. Changed files are read on a thread: large ones take seconds."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if self._has_changed() and await run_in_daemon_thread(self.poll, "leadsman-files"):
                yield self.current

    def _has_changed(self) -> bool:
        """Tells whether to read again: a file that cannot be read each time, content that cannot be used only when it
        changed."""
        try:
            return self._identities is None or self._identities != tuple(map(_identity, self.paths))
        except OSError:
            return True

    def _read(self) -> list[bytes]:
        """The identities are taken first, so that what changes while it is read is read again."""
        self._identities = None
        try:
            identities = tuple(map(_identity, self.paths))
            contents = [_content(path, self._max_bytes + 1) for path in self.paths]
        except OSError as error:
            raise UnusableFile(f"{error.filename}: {error.strerror}; it must be a file that can be read") from error
        self._identities = identities
        for path, content in zip(self.paths, contents, strict=True):
            if len(content) > self._max_bytes:
                raise UnusableFile(f"{path}: larger than {self._max_bytes} bytes, the most that is read")
        return contents

    def _use(self, contents: Sequence[bytes]) -> bool:
        """Tells whether it is another content than that in use."""
        digest = hashlib.sha256(b"".join(hashlib.sha256(content).digest() for content in contents)).digest()
        if digest == self._digest:
            return False
        try:
            self.current = self._parse(contents)
        except ValueError as error:
            if isinstance(error, UsableLater):
                self._identities = None
            raise UnusableFile(f"{' with '.join(map(str, self.paths))}: {error}") from error
        self._digest = digest
        return True


def _identity(path: Path) -> _Identity:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _content(path: Path, max_bytes: int) -> bytes:
    with path.open("rb") as file:
        return file.read(max_bytes)
