"""Calls that nobody waits for beyond a deadline, whatever they do then."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

GIVE_UP_SECONDS = 10.0
"""After which a late call is cancelled, and the next may try by another connection."""


class LateCalls:
    """`close` it at the end.

    A call that is late goes on: its end says that the one called answers again. Until then further calls of the same
    key are late at once, so one that is frozen costs one caller its deadline every GIVE_UP_SECONDS, and no other any.
    """

    def __init__(self) -> None:
        self._late: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, key: Hashable, call: Callable[[], Coroutine[Any, Any, T]], deadline: float) -> T:
        """What the call returns or raises. TimeoutError at the deadline, a moment of the event loop's clock; it does
        not wait until the call has been cancelled."""
        if key in self._late:
            raise TimeoutError
        loop = asyncio.get_running_loop()
        task = loop.create_task(asyncio.wait_for(call(), GIVE_UP_SECONDS))
        try:
            await asyncio.wait({task}, timeout=deadline - loop.time())
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.done():
            return task.result()
        if key in self._late:
            task.cancel()
        else:
            self._late[key] = task
            task.add_done_callback(lambda task: self._ended(key, task))
        raise TimeoutError

    def _ended(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        del self._late[key]
        if not task.cancelled():
            task.exception()  # Its caller has left; unread, asyncio would log it as lost.

    async def close(self) -> None:
        """Cancels the late calls."""
        late = list(self._late.values())
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
