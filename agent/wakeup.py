"""A pause that can be cut short."""

import asyncio
from contextlib import suppress


class Wakeup:
    """One task sleeps, and any other on the same loop wakes it.

    Calls of `wake` before and during a sleep count, several as one.
    """

    def __init__(self) -> None:
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def sleep(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()
