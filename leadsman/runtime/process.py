"""Runs a process's named tasks until it is told to stop, ends within a time limit, and says why it could not run."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any

from leadsman.runtime.redaction import hide_credentials

AsyncMain = Callable[[asyncio.Event], Awaitable[None]]

EXIT_FAILURE = 1


def run_until_stopped(main: AsyncMain, expected: tuple[type[Exception], ...] = ()) -> int:
    """Runs `main` with an event that SIGTERM and SIGINT set, and returns the exit code.

    expected: what an operator can act on: one line instead of a traceback. A port that is taken always is.
    """
    try:
        asyncio.run(_run(main))
    except Exception as error:
        told = list(_leaves(error))
        if not all(isinstance(each, (OSError, *expected)) for each in told):
            raise
        sys.stderr.writelines(hide_credentials(f"leadsman: {each}\n") for each in told)
        return EXIT_FAILURE
    return 0


async def run_tasks(loops: Mapping[str, Coroutine[Any, Any, None]], stop: asyncio.Event) -> None:
    """Runs each loop as a task of its name until `stop` is set. When one fails, all end, and its error is raised.

    A loop that returns has nothing to do; the others go on.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(loop, name=name) for name, loop in loops.items()]
        await stop.wait()
        for task in tasks:
            task.cancel()


async def finish_within(
    limit_seconds: float, last_work: Coroutine[Any, Any, None], expected: tuple[type[Exception], ...]
) -> None:
    """Does the last work of a process, at most for `limit_seconds`; `expected` errors are ignored."""
    with contextlib.suppress(TimeoutError, *expected):
        async with asyncio.timeout(limit_seconds):
            await asyncio.shield(last_work)


async def _run(main: AsyncMain) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await main(stop)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
