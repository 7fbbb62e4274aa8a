"""Hands decided requests to a thread that writes them somewhere, without making answers wait.

The event loop puts a request into a bounded queue and goes on; a request that finds it full is dropped and counted. The
thread is woken once a pod, when its scores have been answered: kube-scheduler binds the pod then, and asks about the
next one no sooner than some milliseconds later. Whenever it wakes while a decision is being made, it waits for the next
such moment, because the interpreter runs one thread at a time. Messages are made one at a time with pauses in between:
the state of 5,000 nodes in one go would stop answers for 50 ms.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Protocol

from leadsman.runtime.version import VERSION
from leadsman.sources.recording.decided_request import PRIORITIZE, DecidedRequest
from leadsman.sources.recording.encoder import RequestEncoder

log = logging.getLogger(__name__)

MAX_QUEUED = 256
"""Requests that wait: some seconds of a busy scheduler. Each holds the inputs that it was decided on."""

MESSAGES_WITHOUT_PAUSE = 4
PAUSE_SECONDS = 0.0005
"""After each further message of one request, so that answers get the interpreter in between."""

FLUSH_SECONDS = 1.0
"""What was decided longer ago than this is written, whatever happens to the process."""

CLOSE_SECONDS = 2.0
"""For what is queued when the process ends."""


class RequestSink(Protocol):
    """Where encoded messages go. All is called by one thread. An OSError ends the stream."""

    @property
    def wants_begin(self) -> bool:
        """Whether the next request should bring all of its inputs."""
        ...

    def begin(self, message: bytes) -> None:
        """What follows can be read without what came before. message: the first of it."""
        ...

    def write(self, messages: Sequence[bytes]) -> None:
        """The messages of one request, in their order; of a large one in several calls."""
        ...

    def end_request(self) -> None:
        """What was written since `begin`, or the last call, is whole."""
        ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class RequestStream:
    """Encodes requests into a sink, on a thread of its own. `start` it, `offer` requests, `close` it at the end.

    written, dropped: requests.
    problem: why it has ended early; "" while it goes on.
    """

    def __init__(
        self,
        sink: RequestSink,
        name: str,
        clock: Callable[[], float] = time.monotonic,
        unix_clock: Callable[[], float] = time.time,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """name: of what is done, as `recording of requests`, for the thread and the log.

        is_busy: whether a request is being decided now; called by the stream's thread.
        """
        self.written = self.dropped = 0
        self.problem = ""
        self._sink, self._name, self._clock, self._unix_clock = sink, name, clock, unix_clock
        self._is_busy, self._caught_up_at = is_busy, clock()
        self._is_closed = self._is_abandoned = False
        self._waiting: deque[DecidedRequest] = deque()
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._encoder = RequestEncoder()
        self._thread = threading.Thread(target=self._run, name=f"leadsman {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def offer(self, request: DecidedRequest) -> None:
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

    def abandon(self) -> None:
        """Ends the thread with its next message, which may never come; what is queued counts as dropped."""
        self._is_closed = self._is_abandoned = True
        self.dropped += len(self._waiting)
        self._wakes.put(None)

    def _run(self) -> None:
        try:
            self._write_until_closed()
            self._sink.flush()
        except Exception as error:  # Whatever it is, answers go on without it.
            if self._is_abandoned:
                return
            is_expected = isinstance(error, OSError)
            log.error("%s stopped; answers go on without it: %s", self._name, error, exc_info=not is_expected)
            self.problem = f"{type(error).__name__}: {error}"
        finally:
            self._sink.close()

    def _write_until_closed(self) -> None:
        while not self._is_closed:
            try:
                self._wakes.get(timeout=FLUSH_SECONDS)
                self._write_waiting()
            except Empty:
                self._write_waiting()
                self._sink.flush()
        while self._waiting and not self._is_abandoned:
            self._write(self._waiting.popleft())

    def _write_waiting(self) -> None:
        """Until none waits, or a decision is being made; the next prioritize call wakes the thread again."""
        while self._waiting and not self._is_abandoned and (self._is_late() or not self._is_busy()):
            self._write(self._waiting.popleft())
        if not self._waiting:
            self._caught_up_at = self._clock()

    def _is_late(self) -> bool:
        return len(self._waiting) >= MAX_QUEUED // 2 or self._clock() - self._caught_up_at >= FLUSH_SECONDS

    def _write(self, request: DecidedRequest) -> None:
        if self._sink.wants_begin or self._encoder.is_full:
            self._sink.begin(self._encoder.begin(VERSION, self._clock(), self._unix_clock()))
        for number, message in enumerate(self._encoder.encode(request)):
            self._sink.write([message])
            if number >= MESSAGES_WITHOUT_PAUSE:
                time.sleep(PAUSE_SECONDS)
        self._sink.end_request()
        self.written += 1
