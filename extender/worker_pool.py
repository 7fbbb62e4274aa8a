"""Runs decisions on worker threads, so that a slow plugin delays neither a response nor the event loop.

A thread cannot be killed. One that exceeds its deadline works on, takes no further work until it has finished, and
another takes its place. When all of `max_workers` are past their deadline, liveness fails (see `exhausted`).
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")

DECISION_DEADLINE_SECONDS = 0.2
"""kube-scheduler's httpTimeout is set to 300 ms or more; the rest is for the network."""

MAX_WORKERS = 16


class DeadlineExceeded(Exception):
    """No result within the deadline. The work goes on and its result is dropped."""


class WorkerPool:
    """At most `max_workers` threads, started when needed. Use from one event loop; close at the end."""

    def __init__(self, deadline_seconds: float = DECISION_DEADLINE_SECONDS, max_workers: int = MAX_WORKERS) -> None:
        self.deadline_seconds = deadline_seconds
        self._max_workers = max_workers
        self._alive = 0
        self._overdue = 0
        self._idle: asyncio.LifoQueue[_Worker] = asyncio.LifoQueue()

    @property
    def overdue(self) -> int:
        """Threads that still work on a result that is past its deadline."""
        return self._overdue

    @property
    def exhausted(self) -> bool:
        """Whether every thread is past its deadline, so that nothing can be decided."""
        return self._overdue >= self._max_workers

    async def run(self, work: Callable[[], T], deadline_seconds: float | None = None) -> T:
        """What `work` returns or raises. DeadlineExceeded when that and the wait for a free thread take too long."""
        deadline = self.deadline_seconds if deadline_seconds is None else deadline_seconds
        try:
            async with asyncio.timeout(deadline):
                worker = await self._worker()
                return await self._result(worker, work)
        except TimeoutError as error:
            raise DeadlineExceeded(f"no result within {deadline * 1000:g} ms") from error

    def close(self) -> None:
        """Ends the idle threads. A busy one ends with the process."""
        while not self._idle.empty():
            self._idle.get_nowait().inbox.put(None)

    async def _worker(self) -> "_Worker":
        if self._idle.empty() and self._alive < self._max_workers:
            self._alive += 1
            return _Worker()
        return await self._idle.get()

    async def _result(self, worker: "_Worker", work: Callable[[], T]) -> T:
        job = _Job(work, asyncio.get_running_loop(), lambda: self._returned(worker, job))
        worker.inbox.put(job)
        try:
            return await job.result
        except asyncio.CancelledError:
            self._overdue += not job.done
            raise

    def _returned(self, worker: "_Worker", job: "_Job[Any]") -> None:
        self._overdue -= job.result.cancelled()
        self._idle.put_nowait(worker)


class _Job(Generic[T]):
    def __init__(self, work: Callable[[], T], loop: asyncio.AbstractEventLoop, on_done: Callable[[], None]) -> None:
        self.result: asyncio.Future[T] = loop.create_future()
        self.done = False
        self._work, self._loop, self._on_done = work, loop, on_done

    def run(self) -> None:
        """Runs on the worker's thread. A loop that is closed gets no result."""
        try:
            value, error = self._work(), None
        except Exception as raised:
            value, error = None, raised
        try:
            self._loop.call_soon_threadsafe(self._deliver, value, error)
        except RuntimeError:
            return

    def _deliver(self, value: Any, error: Exception | None) -> None:
        self.done = True
        if error is not None and not self.result.done():
            self.result.set_exception(error)
        elif not self.result.done():
            self.result.set_result(value)
        self._on_done()


class _Worker:
    def __init__(self) -> None:
        self.inbox: SimpleQueue[_Job[Any] | None] = SimpleQueue()
        threading.Thread(target=self._run, name="leadsman-decision", daemon=True).start()

    def _run(self) -> None:
        while job := self.inbox.get():
            job.run()
            del job
