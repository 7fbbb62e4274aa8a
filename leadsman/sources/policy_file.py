"""Reads the policy file again when it changes."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from prometheus_client import Metric

from leadsman.decision import policy
from leadsman.decision.policy import Policy
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.scrape import gauge
from leadsman.runtime.watched_files import WatchedFiles

_log = logging.getLogger(__name__)

MAX_FILE_BYTES = 1 << 20
"""A ConfigMap's own limit."""


class PolicyFile(WatchedFiles[Policy]):
    """Follows the policy file and keeps the last good version in use.

    path: None: the default policy, which never changes.
    wall_clock: seconds since 1970, for the metric only.

    The first reading raises leadsman.runtime.watched_files.UnusableFile.
    """

    def __init__(self, path: Path | None, wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        problem = ProblemLog(
            _log,
            "cannot use the policy file; the last good policy stays in use",
            "the policy file is valid again",
            logging.ERROR,
        )
        self.current = Policy()
        super().__init__([path] if path else [], self._parsed, problem, MAX_FILE_BYTES)

    async def follow(self) -> None:
        """Follows the file until cancelled."""
        async for _ in self.changes():
            pass  # What reads `current` has the new policy.

    def families(self) -> Iterator[Metric]:
        """Yields its metrics; a scrape reads memory only."""
        valid = "1 when the policy file was valid when last read, 0 while the previous policy stays in use."
        yield gauge("leadsman_policy_load_success", valid, not self.problem.text)
        read = "Unix time at which the policy in use was read."
        yield gauge("leadsman_policy_last_reload_timestamp_seconds", read, self._used_at)

    def _parsed(self, contents: Sequence[bytes]) -> Policy:
        new = policy.parse(contents[0].decode()) if contents else Policy()
        if new != self.current:
            _log.info("policy %s in use", policy.digest(new))
        self._used_at = self._wall_clock()
        return new
