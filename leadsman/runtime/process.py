"""A process that runs until it is told to stop, and says plainly why it could not."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator

AsyncMain = Callable[[asyncio.Event], Awaitable[None]]

EXIT_FAILURE = 1


def run_until_stopped(main: AsyncMain, expected: tuple[type[Exception], ...] = ()) -> int:
    """Runs `main` with an event that SIGTERM and SIGINT set. Exit code.

    expected: what an operator can act on: one line instead of a traceback. A port that is taken always is.
    """
    try:
        asyncio.run(_run(main))
    except Exception as error:
        told = list(_leaves(error))
        if not all(isinstance(each, (OSError, *expected)) for each in told):
            raise
        sys.stderr.writelines(f"leadsman: {each}\n" for each in told)
        return EXIT_FAILURE
    return 0


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
