"""Loops that run beside a test."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def running(*loops: Coroutine[Any, Any, Any]) -> AsyncIterator[None]:
    """Runs each as a task until the block ends. Raises what one of them ended with."""
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error
