"""Runs decisions on worker threads, so that slow work delays neither a response nor the event loop.

Work of one namespace never keeps that of another waiting for long: few jobs run at once, one of each namespace, and
namespaces take turns. More threads at once would make each slower, because the interpreter runs one at a time. And pods
of one workload, which come one after another, find each what the one before had computed.

A thread cannot be killed. Work that nobody waits for any more never begins, or stops at its next checkpoint. A thread
that is past its deadline gives its turn to another as long as threads are left. When all of `max_workers` are past
their deadline, liveness fails (see `exhausted`).
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from operator import methodcaller
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")

DECISION_DEADLINE_SECONDS = 0.2
"""kube-scheduler's httpTimeout is set to 300 ms or more; the rest is for the network."""

MAX_WORKERS = 16
MAX_RUNNING = 4
"""Jobs within their deadline that run at once, each of another namespace."""


class DeadlineExceeded(Exception):
    """There was no result within the deadline. The work stops at its next checkpoint, and its result is dropped."""


class Abandoned(Exception):
    """Ends the work of a thread whose result nobody waits for any more."""


class WorkerPool:
    """Runs jobs on at most `max_workers` threads. Use from one event loop; close at the end.

    max_running: jobs within their deadline that run at once.
    overdue: threads that still work on a result that is past its deadline.
    """

    def __init__(
        self,
        deadline_seconds: float = DECISION_DEADLINE_SECONDS,
        max_workers: int = MAX_WORKERS,
        max_running: int = MAX_RUNNING,
    ) -> None:
        self.deadline_seconds, self.overdue = deadline_seconds, 0
        self._max_workers, self._max_running = max_workers, min(max_running, max_workers)
        self._running = 0
        self._turns = asyncio.Semaphore(self._max_running)
        self._namespaces: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._threads = ThreadPoolExecutor(max_workers, "leadsman-decision")
        self._this_thread = threading.local()

    @property
    def exhausted(self) -> bool:
        """Tells whether every thread is past its deadline, so that nothing can be decided."""
        return self.overdue >= self._max_workers

    @property
    def is_busy(self) -> bool:
        """Tells whether a job within its deadline runs. May be asked from any thread."""
        return self._running > 0

    async def run(self, work: Callable[[], T], deadline_seconds: float | None = None, namespace: str = "") -> T:
        """Returns what `work` returns or raises. Raises DeadlineExceeded when it takes too long, its wait for a thread
        included.

        namespace: of which one job runs at a time. A page gives its path.
        """
        deadline = self.deadline_seconds if deadline_seconds is None else deadline_seconds
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline
        alone = self._namespaces.setdefault(namespace, asyncio.Lock())
        try:
            async with asyncio.timeout_at(end):
                await self._wait_for_turn(alone)
        except TimeoutError:
            raise _late(deadline) from None
        job: _Job[T] = _Job(alone, loop.create_future())
        self._running += 1
        job.timer = loop.call_at(end, self._expire, job, deadline)
        self._threads.submit(self._do, job, work, loop)
        try:
            return await job.result
        finally:
            job.abandoned = True  # No effect on a job that is done.

    def checkpoint(self) -> None:
        """Raises Abandoned when the caller has left or the deadline has passed; long work calls this now and then."""
        job = getattr(self._this_thread, "job", None)
        if job is not None and job.abandoned:
            raise Abandoned

    def close(self) -> None:
        """Ends the idle threads. A busy one ends with its work."""
        self._threads.shutdown(wait=False)

    async def _wait_for_turn(self, alone: asyncio.Lock) -> None:
        """Waits first within the namespace and then among namespaces, so that each of these has one job in the
        queue."""
        await alone.acquire()
        try:
            await self._turns.acquire()
        except BaseException:
            alone.release()
            raise

    def _do(self, job: "_Job[T]", work: Callable[[], T], loop: asyncio.AbstractEventLoop) -> None:
        """Does a job, on a thread."""
        self._this_thread.job = job
        job.settle = _settled_by(work)
        self._this_thread.job = None
        with suppress(RuntimeError):  # A loop that is closed gets no result.
            loop.call_soon_threadsafe(self._finish, job)

    def _finish(self, job: "_Job[Any]") -> None:
        job.timer.cancel()
        if job.is_overdue:
            self.overdue -= 1
        else:
            self._running -= 1
            job.alone.release()
        if job.has_turn:
            self._turns.release()
        settle, result = job.settle, job.result
        # A traceback has the frames of all callers, and these have the job: a cycle, by which what a decision had
        # computed would stay in memory until the garbage collector comes, 200 MiB in a storm.
        del job.settle, job.result
        if settle and not result.done():
            settle(result)

    def _expire(self, job: "_Job[Any]", deadline: float) -> None:
        """Ends a job that has taken too long, also one whose caller has left: until then it keeps its turn, so that
        callers who come and go cannot occupy all threads. A result that is made, and waits for the event loop only, is
        delivered."""
        if job.settle:
            return
        job.abandoned = job.is_overdue = True
        self._running -= 1
        self.overdue += 1
        job.alone.release()
        if self.overdue + self._max_running <= self._max_workers:
            job.has_turn = False
            self._turns.release()
        if not job.result.done():
            job.result.set_exception(_late(deadline))


class _Job(Generic[T]):
    """Work that has its turn.

    abandoned: nobody waits for the result; read by the thread that works on it.
    settle: gives the result what the work returned or raised; set by that thread.
    """

    timer: asyncio.TimerHandle

    def __init__(self, alone: asyncio.Lock, result: "asyncio.Future[T]") -> None:
        self.settle: Callable[[asyncio.Future[T]], None] | None = None
        self.alone, self.result = alone, result
        self.has_turn, self.abandoned, self.is_overdue = True, False, False


def _late(deadline: float) -> DeadlineExceeded:
    return DeadlineExceeded(f"no result within {deadline * 1000:g} ms")


def _settled_by(work: Callable[[], T]) -> "Callable[[asyncio.Future[T]], None]":
    """Does the work, and returns what sets its result or its error."""
    try:
        return methodcaller("set_result", work())
    except Abandoned:
        return lambda _: None
    except Exception as error:
        return methodcaller("set_exception", error)
