"""Does long work beside the event loop."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def run_in_daemon_thread(work: Callable[[], T], name: str) -> T:
    """Returns what `work` returns or raises; its own thread does not keep the process from leaving.

    An exit, a cancellation or a StopIteration of `work` is a RuntimeError here.
    A caller that is cancelled leaves at once; the work goes on and its result is dropped.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def deliver(value: T | None, error: BaseException | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        value, error = None, None
        try:
            value = work()
        except BaseException as raised:  # Whatever it is, it belongs to the one who waits.
            # An exit or a cancellation would end him too, and no Future takes a StopIteration.
            is_plain = isinstance(raised, Exception) and not isinstance(raised, StopIteration)
            error = raised if is_plain else RuntimeError(f"{type(raised).__name__}: {raised}")
        with contextlib.suppress(RuntimeError):  # A closed loop has nobody left to tell.
            loop.call_soon_threadsafe(deliver, value, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await result
