"""The policy file, read again when it changes.

A ConfigMap changes by swapping a symlink, so identity is the inode as well as time and size, and what decides is the
content. A file that cannot be used is refused by name, and the last good policy stays.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric

from leadsman.decision import policy
from leadsman.decision.policy import Policy, PolicyError

_log = logging.getLogger(__name__)

POLL_SECONDS = 1.0

MAX_FILE_BYTES = 1 << 20
"""A ConfigMap's own limit."""


class PolicyFile:
    """path None: the defaults, for ever. wall_clock: seconds since 1970, for the metric only.

    The first reading raises PolicyError, so that a slip is seen at start and not in the log of a running process.
    """

    def __init__(self, path: Path | None, wall_clock: Callable[[], float] = time.time) -> None:
        self._path, self._wall_clock, self._used_at = path, wall_clock, 0.0
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

    async def follow(self) -> None:
        """Polls until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            self.poll()

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        yield GaugeMetricFamily(
            "leadsman_policy_load_success",
            "1 when the policy file was good when last read, 0 when the one before it is still used.",
            not self.problem,
        )
        yield GaugeMetricFamily(
            "leadsman_policy_last_reload_timestamp_seconds", "When the policy in use was read.", self._used_at
        )

    def _load(self) -> None:
        if self._path is None:
            self._use(Policy())
        elif (text := self._read_if_changed(self._path)) is not None:
            self._use(self._parse_if_new(self._path, text))

    def _read_if_changed(self, path: Path) -> bytes | None:
        """The content when it is new, None when it is what was read before. PolicyError when there is none."""
        try:
            stat = path.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen == self._seen:
                return None
            with path.open("rb") as file:
                text = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            self._seen = None
            raise PolicyError(f"{path}: {error.strerror}; want a policy file that can be read") from error
        self._seen = seen
        return text

    def _parse_if_new(self, path: Path, text: bytes) -> Policy | None:
        """None when the content is that of the policy in use."""
        if len(text) > MAX_FILE_BYTES:
            raise PolicyError(f"{path}: over {MAX_FILE_BYTES} bytes; want at most that")
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
        mended, self.problem = bool(self.problem), ""
        if new is None:
            if mended:
                _log.info("policy %s in use, the file is good again", policy.digest(self.current))
            return
        if new != self.current:
            _log.info("policy %s in use", policy.digest(new))
        self.current = new
        self._used_at = self._wall_clock()
