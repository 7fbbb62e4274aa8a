import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from random import Random
from unittest.mock import AsyncMock, Mock

import pytest

from leadsman.runtime.backoff import Backoff
from leadsman.runtime.daemon_thread import run_in_daemon_thread
from leadsman.runtime.lru import LruCache
from leadsman.runtime.process import EXIT_FAILURE, run_tasks, run_until_stopped


async def test_one_that_fails_ends_all_and_its_error_is_raised() -> None:
    fail = AsyncMock(side_effect=ZeroDivisionError("a loop's own fault"))
    async with asyncio.timeout(60):
        with pytest.raises(ExceptionGroup) as caught:
            await run_tasks({"measure": asyncio.sleep(3600), "report": fail()}, asyncio.Event())
    assert caught.group_contains(ZeroDivisionError, match="a loop's own fault")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_process_with_success(number: signal.Signals) -> None:
    async def main(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), number)
        async with asyncio.timeout(60):
            await stop.wait()

    assert run_until_stopped(main) == 0


def test_a_fault_that_an_operator_can_mend_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    async def main(_: asyncio.Event) -> None:
        raise ExceptionGroup("tasks", [OSError(98, "Address already in use")])

    assert run_until_stopped(main) == EXIT_FAILURE
    assert capsys.readouterr().err == "leadsman: [Errno 98] Address already in use\n"


def endless() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "endless"]


async def test_one_who_is_cancelled_leaves_and_the_process_can_end(until: Callable[..., Awaitable[None]]) -> None:
    """The thread is a daemon, and its late result falls into nothing."""
    release = threading.Event()
    work = asyncio.create_task(run_in_daemon_thread(lambda: release.wait(5), "endless"))
    await until(endless)
    (thread,) = endless()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert thread.daemon
    release.set()
    thread.join(5)
    await asyncio.sleep(0)


@pytest.mark.parametrize("error", [StopIteration(), SystemExit(3), asyncio.CancelledError()])
async def test_what_would_end_the_loop_or_no_future_takes_is_an_error_as_any_other(error: BaseException) -> None:
    work = Mock(side_effect=error)
    with pytest.raises(RuntimeError, match=type(error).__name__):
        await asyncio.wait_for(run_in_daemon_thread(work, "raises"), 5)


class Longest(Random):
    """Always the longest pause that is allowed."""

    def uniform(self, a: float, b: float) -> float:
        return b


def test_the_limit_doubles_from_the_first_to_the_longest_pause() -> None:
    backoff = Backoff(0.5, 5.0, Longest())
    assert [backoff.next_seconds() for _ in range(6)] == [0.5, 1, 2, 4, 5, 5]


# What was used lately stays, what was not goes.


def test_what_is_used_outlives_any_number_of_others() -> None:
    recent: LruCache[int, str] = LruCache(2)
    recent.put(0, "used")
    for key in range(1, 50):
        recent.put(key, "other")
        assert recent.get(0) == "used"
