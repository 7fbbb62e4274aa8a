"""Records decided requests in a ring of files, for `leadsman replay`, without making answers wait.

The event loop puts a request into a bounded queue and goes on; a request that finds it full is dropped and counted. A
thread writes them. It is woken once a pod, when its scores have been answered: kube-scheduler binds the pod then, and
asks about the next one no sooner than some milliseconds later. Whenever it wakes while a decision is being made, it
waits for the next such moment, because the interpreter runs one thread at a time. Messages are made one at a time with
pauses in between: the state of 5,000 nodes in one go would stop answers for 50 ms.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue

from prometheus_client import Metric

from leadsman.runtime.scrape import counter, gauge
from leadsman.sources.recording.messages import PRIORITIZE, DecidedRequest, RequestEncoder
from leadsman.sources.recording.segments import SegmentRing

log = logging.getLogger(__name__)

MAX_QUEUED = 256
"""Requests that wait: some seconds of a busy scheduler. Each holds the inputs that it was decided on."""

MESSAGES_WITHOUT_PAUSE = 4
PAUSE_SECONDS = 0.0005
"""The writer pauses for so long after each further message of one request, so that answers get the interpreter in
between."""

BLOCK_BYTES = 64 << 10
"""Messages of this size are compressed together. zlib looks 32 KiB back, so larger ones save little more."""

FLUSH_SECONDS = 1.0
"""What was decided longer ago than this is written, whatever happens to the process."""

CLOSE_SECONDS = 2.0
"""The recorder has so long to write what is queued when the process ends."""


class Recorder:
    """Writes decided requests to a folder. `start` it, `observe` decided requests, `close` it at the end.

    written, dropped: requests.
    problem: why it has ended early; "" while it goes on.

    Raises RingFolderError when the folder cannot be used.
    """

    def __init__(
        self,
        folder: Path,
        max_bytes: int,
        is_busy: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """is_busy: whether a request is being decided now; called by the recorder's thread."""
        self.written = self.dropped = 0
        self.problem = ""
        self._ring, self._encoder = SegmentRing(folder, max_bytes), RequestEncoder()
        self._is_busy, self._clock = is_busy, clock
        self._caught_up_at = self._flushed_at = clock()
        self._block: list[bytes] = []
        self._block_bytes = 0
        self._is_closed = False
        self._waiting: deque[DecidedRequest] = deque()
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="leadsman recording", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def observe(self, request: DecidedRequest) -> None:
        """Takes the request if there is room for it. Never blocks, never raises."""
        if self.problem or len(self._waiting) >= MAX_QUEUED:
            self.dropped += 1
            return
        self._waiting.append(request)
        if request.verb == PRIORITIZE or len(self._waiting) >= MAX_QUEUED // 2:
            self._wakes.put(None)

    def close(self) -> None:
        """Writes what is queued, for a while, and ends the thread."""
        self._is_closed = True
        self._wakes.put(None)
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            log.warning("the recording ends without its last requests, some %d", len(self._waiting) + 1)

    def families(self) -> Iterator[Metric]:
        """Yields the metrics of the recording."""
        active = "1 while requests are recorded, 0 after the recording had to stop: the log says why."
        yield gauge("leadsman_recording_active", active, not self.problem)
        yield counter("leadsman_recording_requests", "Requests written to the recording.", self.written)
        dropped = "Requests that are not in the recording: the writer was behind, or has stopped."
        yield counter("leadsman_recording_dropped_requests", dropped, self.dropped)
        yield gauge("leadsman_recording_bytes", "Bytes of the recording's files.", self._ring.total_bytes)

    def _run(self) -> None:
        try:
            while not self._is_closed:
                try:
                    self._wakes.get(timeout=FLUSH_SECONDS)
                    self.write_waiting()
                except Empty:
                    self.write_waiting()
                    self._flush()
            while self._waiting:
                self._write(self._waiting.popleft())
            self._flush()
        except Exception as error:  # Whatever it is, answers go on without it.
            is_expected = isinstance(error, OSError)
            log.error("recording of requests stopped; answers go on without it: %s", error, exc_info=not is_expected)
            self.problem = f"{type(error).__name__}: {error}"
            self.dropped += len(self._waiting)
            self._waiting.clear()
        finally:
            self._ring.close()

    def write_waiting(self) -> None:
        """Writes until nothing waits or a decision is being made; the next prioritize call wakes the thread again."""
        while self._waiting and (self._is_late() or not self._is_busy()):
            self._write(self._waiting.popleft())
        if not self._waiting:
            self._caught_up_at = self._clock()

    def _is_late(self) -> bool:
        return len(self._waiting) >= MAX_QUEUED // 2 or self._clock() - self._caught_up_at >= FLUSH_SECONDS

    def _write(self, request: DecidedRequest) -> None:
        begins = self._ring.is_full or self._encoder.is_full
        if begins:
            self._flush()
            self._ring.begin_segment()
            self._encoder.begin()
        for number, message in enumerate(self._encoder.encode(request)):
            self._add(message)
            if number >= MESSAGES_WITHOUT_PAUSE:
                time.sleep(PAUSE_SECONDS)
        self.written += 1
        if begins:
            self._flush()
            self._ring.end_state()
        elif self._clock() - self._flushed_at >= FLUSH_SECONDS:
            self._flush()

    def _add(self, message: bytes) -> None:
        self._block.append(message)
        self._block_bytes += len(message)
        if self._block_bytes >= BLOCK_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._flushed_at = self._clock()
        if self._block:
            self._ring.write(self._encoder.block(self._block, self._flushed_at, time.time()))
            self._block, self._block_bytes = [], 0
