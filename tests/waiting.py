"""Waits for the thing itself. The end is far: on a busy machine a test is only slower."""

import asyncio
import time
from collections.abc import Callable
from typing import Any


async def until(true: Callable[[], Any], within_seconds: float = 60.0) -> None:
    async with asyncio.timeout(within_seconds):
        while not true():  # noqa: ASYNC110 -- what is waited for has no event
            await asyncio.sleep(0.005)


def blocked_until(true: Callable[..., Any], what: str = "", within_seconds: float = 60.0) -> Any:
    """Returns what came; AssertionError names what did not."""
    deadline = time.monotonic() + within_seconds
    while not (found := true()):
        assert time.monotonic() < deadline, f"not within {within_seconds:g} s: {what}"
        time.sleep(0.05)
    return found
