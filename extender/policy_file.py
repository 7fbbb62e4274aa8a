"""The policy file, read again when it changes.

A ConfigMap changes by swapping a symlink, so identity is the inode as well as time and size, and what decides is the
content. A file that cannot be used is refused by name, and the last good policy stays.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path

from decision import policy
from decision.policy import Policy, PolicyError
from extender.metrics import Metrics

_log = logging.getLogger(__name__)

POLL_SECONDS = 1.0

LARGEST_FILE_BYTES = 1 << 20
"""A ConfigMap's own limit."""


class PolicyFile:
    """path None: the defaults, for ever. wall_clock: seconds since 1970, for the metric only.

    The first reading raises PolicyError, so that a slip is seen at start and not in the log of a running extender.
    """

    def __init__(self, path: Path | None, metrics: Metrics, wall_clock: Callable[[], float]) -> None:
        self._path, self._metrics, self._wall_clock = path, metrics, wall_clock
        self._seen: tuple[int, int, int] | None = None
        self._digest = b""
        self.current = Policy()
        self.problem = ""
        self._load()

    def poll(self) -> None:
        """Reads the file if it has changed. Never raises: `problem` says what is wrong, "" when nothing is."""
        try:
            self._load()
        except PolicyError as error:
            if self.problem != str(error):
                _log.error("policy refused, the one before it stays: %s", error)
            self.problem = str(error)
        self._metrics.policy_loaded.set(not self.problem)

    async def follow(self) -> None:
        """Polls until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            self.poll()

    def _load(self) -> None:
        if self._path is None:
            self._use(Policy())
        elif (text := self._changed(self._path)) is not None:
            self._use(self._parsed(self._path, text))

    def _changed(self, path: Path) -> bytes | None:
        """The content when it is new, None when it is what was read before. PolicyError when there is none."""
        try:
            stat = path.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen == self._seen:
                return None
            with path.open("rb") as file:
                text = file.read(LARGEST_FILE_BYTES + 1)
        except OSError as error:
            self._seen = None
            raise PolicyError(f"{path}: {error.strerror}; want a policy file that can be read") from error
        self._seen = seen
        return text

    def _parsed(self, path: Path, text: bytes) -> Policy | None:
        """None when the content is that of the policy in use."""
        if len(text) > LARGEST_FILE_BYTES:
            raise PolicyError(f"{path}: over {LARGEST_FILE_BYTES} bytes; want at most that")
        digest = hashlib.sha256(text).digest()
        if digest == self._digest:
            return None
        try:
            parsed = policy.parse(text.decode())
        except (PolicyError, UnicodeDecodeError) as error:
            raise PolicyError(f"{path}: {error}") from error
        self._digest = digest
        return parsed

    def _use(self, new: Policy | None) -> None:
        self.problem = ""
        self._metrics.policy_loaded.set(1)
        if new is None:
            return
        if new != self.current:
            _log.info("policy %s in use", policy.digest(new))
        self.current = new
        self._metrics.policy_loaded_at.set(self._wall_clock())
