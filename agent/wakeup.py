"""A pause that can be cut short."""

import asyncio
from contextlib import suppress


class Wakeup:
    """One task sleeps, any other on the same loop rings. Rings before and during a sleep count, several as one."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def wake(self) -> None:
        self._rung.set()

    async def sleep(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        self._rung.clear()
