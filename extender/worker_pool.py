"""Runs decisions on worker threads, so that a slow plugin delays neither a response nor the event loop.

Work of one namespace never keeps that of another waiting for long: few jobs run at once, one of each namespace, and
namespaces take turns. More threads at once would make each slower, because the interpreter runs one at a time. And pods
of one workload, which come one after another, find each what the one before had computed.

A thread cannot be killed. Work that nobody waits for any more is dropped from the queue, and stops at its next
checkpoint when it runs. A thread that is past its deadline gives its turn to another and takes no further work until it
has finished. When all of `max_workers` are past their deadline, liveness fails (see `exhausted`).
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from operator import methodcaller
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")

DECISION_DEADLINE_SECONDS = 0.2
"""kube-scheduler's httpTimeout is set to 300 ms or more; the rest is for the network."""

MAX_WORKERS = 16
MAX_RUNNING = 4
"""Jobs within their deadline that run at once, each of another namespace."""


class DeadlineExceeded(Exception):
    """No result within the deadline. The work stops at its next checkpoint, and its result is dropped."""


class Abandoned(Exception):
    """Nobody waits for the result of the work that this thread does."""


class WorkerPool:
    """At most `max_workers` threads, started when needed. Use from one event loop; close at the end.

    max_running: jobs within their deadline that run at once.
    """

    def __init__(
        self,
        deadline_seconds: float = DECISION_DEADLINE_SECONDS,
        max_workers: int = MAX_WORKERS,
        max_running: int = MAX_RUNNING,
    ) -> None:
        self.deadline_seconds = deadline_seconds
        self._max_workers, self._max_running = max_workers, max_running
        self._waiting: dict[str, deque[_Job[Any]]] = {}
        self._running: set[str] = set()
        self._overdue = 0
        self._idle: list[_Worker] = []
        self._on_this_thread = _OnThisThread()

    @property
    def overdue(self) -> int:
        """Threads that still work on a result that is past its deadline."""
        return self._overdue

    @property
    def exhausted(self) -> bool:
        """Tells whether every thread is past its deadline, so that nothing can be decided."""
        return self._overdue >= self._max_workers

    @property
    def is_busy(self) -> bool:
        """Tells whether a job within its deadline runs. May be asked from any thread."""
        return bool(self._running)

    @property
    def waiting(self) -> int:
        """Jobs that have not begun."""
        return sum(map(len, self._waiting.values()))

    async def run(self, work: Callable[[], T], deadline_seconds: float | None = None, namespace: str = "") -> T:
        """Returns what `work` returns or raises. DeadlineExceeded when that and the wait for its turn take too long.

        namespace: of which one job runs at a time. A page gives its path.
        """
        deadline = self.deadline_seconds if deadline_seconds is None else deadline_seconds
        loop = asyncio.get_running_loop()
        job: _Job[T] = _Job(work, namespace, loop.create_future())
        job.timer = loop.call_later(deadline, self._expire, job, deadline)
        self._waiting.setdefault(namespace, deque()).append(job)
        self._start_next()
        try:
            return await job.result
        finally:
            job.abandoned = True  # No effect on a job that is done.
            self._drop_if_waiting(job)
            del job  # A traceback of its error has this frame, which must not have the error.

    def checkpoint(self) -> None:
        """Long work calls this now and then. Abandoned when its caller has left or its deadline has passed."""
        job = self._on_this_thread.job
        if job is not None and job.abandoned:
            raise Abandoned

    def close(self) -> None:
        """Ends the idle threads. A busy one ends with the process."""
        while self._idle:
            self._idle.pop().inbox.put(None)

    def _start_next(self) -> None:
        """Starts what may run now. The namespace that had its turn is the last of the next round."""
        while len(self._running) < min(self._max_running, self._max_workers - self._overdue):
            namespace = next((each for each in self._waiting if each not in self._running), None)
            if namespace is None:
                return
            jobs = self._waiting.pop(namespace)
            self._start(jobs.popleft())
            if jobs:
                self._waiting[namespace] = jobs

    def _start(self, job: "_Job[Any]") -> None:
        job.state = _State.RUNNING
        self._running.add(job.namespace)
        worker = self._idle.pop() if self._idle else _Worker(self._on_this_thread)
        worker.inbox.put((job, lambda: self._finish(job, worker)))

    def _finish(self, job: "_Job[Any]", worker: "_Worker") -> None:
        if job.state is _State.OVERDUE:
            self._overdue -= 1
        else:
            self._running.discard(job.namespace)
        job.end()
        job.deliver()
        self._idle.append(worker)
        self._start_next()

    def _expire(self, job: "_Job[Any]", deadline: float) -> None:
        """Also of a job whose caller has left: until then it keeps its turn, so that callers who come and go cannot
        occupy all threads. A result that is made, and waits for the event loop only, is delivered."""
        if job.is_computed:
            return
        job.abandoned = True
        self._drop_if_waiting(job)
        if job.state is _State.RUNNING:
            job.state = _State.OVERDUE
            self._running.discard(job.namespace)
            self._overdue += 1
            self._start_next()
        if not job.result.done():
            job.result.set_exception(DeadlineExceeded(f"no result within {deadline * 1000:g} ms"))

    def _drop_if_waiting(self, job: "_Job[Any]") -> None:
        if job.state is _State.WAITING:
            job.end()
            jobs = self._waiting[job.namespace]
            jobs.remove(job)
            if not jobs:
                del self._waiting[job.namespace]


class _State(Enum):
    """Changes on the event loop's thread only, so that each job is counted once."""

    WAITING = 1
    RUNNING = 2
    OVERDUE = 3
    DONE = 4


class _Job(Generic[T]):
    """abandoned: nobody waits for the result; read by the thread that works on it.
    settle, is_computed: set by that thread. settle: gives the result what the work returned or raised.
    """

    timer: asyncio.TimerHandle

    def __init__(self, work: Callable[[], T], namespace: str, result: "asyncio.Future[T]") -> None:
        self.namespace, self.result = namespace, result
        self.state, self.abandoned, self.is_computed = _State.WAITING, False, False
        self.work: Callable[[], T] = work
        self.settle: Callable[[asyncio.Future[T]], None] = _leave

    def end(self) -> None:
        self.state = _State.DONE
        self.timer.cancel()

    def deliver(self) -> None:
        """Sets the result, if somebody still waits for it."""
        if not self.result.done():
            self.settle(self.result)


def _do(work: Callable[[], T]) -> "Callable[[asyncio.Future[T]], None]":
    """Does the work, and returns what sets its result or its error.

    A traceback keeps the frames of all callers, so none that has ended may have the job or the future: that would be a
    cycle, and what a decision had computed would stay in memory until the garbage collector comes, 200 MiB in a storm.
    """
    try:
        return methodcaller("set_result", work())
    except Abandoned:
        return _leave
    except Exception as error:
        return methodcaller("set_exception", error)


def _leave(result: "asyncio.Future[Any]") -> None:
    """Nobody waits for the result."""


class _OnThisThread(threading.local):
    job: _Job[Any] | None = None


class _Worker:
    """inbox: a job, and what to call on its event loop when it is done."""

    def __init__(self, on_this_thread: _OnThisThread) -> None:
        self.inbox: SimpleQueue[tuple[_Job[Any], Callable[[], None]] | None] = SimpleQueue()
        self._on_this_thread = on_this_thread
        threading.Thread(target=self._run, name="leadsman-decision", daemon=True).start()

    def _run(self) -> None:
        while assignment := self.inbox.get():
            job, on_done = assignment
            self._on_this_thread.job = job
            job.settle = _do(job.work)
            job.is_computed = True
            self._on_this_thread.job = None
            with suppress(RuntimeError):  # A loop that is closed gets no result.
                job.result.get_loop().call_soon_threadsafe(on_done)
            del assignment, job, on_done
