"""The TLS context of a client's new connections, made again when its files change.

No task is needed: who asks for the context has the files looked at, once a second at most. Open connections keep
theirs.
"""

import logging
import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.watched_files import POLL_SECONDS, WatchedFiles

_log = logging.getLogger(__name__)

_MAX_FILE_BYTES = 1 << 20

TlsSetting = ssl.SSLContext | bool
"""As aiohttp takes it. True: its own, of the system's CAs; so it is for plain HTTP, which has no context."""


class ClientTls:
    """current: for new connections. problem: why the files are not in use as they are now.

    What cannot work replaces nothing: files that are no PEM or do not fit together, an expired certificate. A CA that
    is no longer in its file is no longer trusted.
    """

    def __init__(
        self,
        server: str,
        files: Sequence[Path],
        first: TlsSetting,
        renew: Callable[[], TlsSetting],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """server: its name, for the log. first: in use until a file changes. renew: made of the files as they are then;
        ValueError when no connection could be made with it. clock: monotonic seconds."""
        self._first, self._renew, self._clock = [first], renew, clock
        self._next_poll = clock() + POLL_SECONDS
        self.problem = ProblemLog(
            _log,
            f"cannot use the TLS files of connections to {server}; those loaded before stay in use",
            f"the TLS files of connections to {server} can be used again",
            logging.ERROR,
        )
        self._watched = WatchedFiles(files, self._make, self.problem, _MAX_FILE_BYTES)

    @property
    def current(self) -> TlsSetting:
        if self._clock() >= self._next_poll:
            self._next_poll = self._clock() + POLL_SECONDS
            if self._watched.poll():
                _log.info("reloaded TLS files for new connections: %s", ", ".join(map(str, self._watched.paths)))
        return self._watched.current

    def _make(self, _: Sequence[bytes]) -> TlsSetting:
        """OpenSSL reads the files itself."""
        return self._first.pop() if self._first else self._renew()
