"""What tests of delays share."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

Until = Callable[[Callable[[], object]], Awaitable[None]]


async def _until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110 -- what is waited for has no event
            await asyncio.sleep(0.005)


@pytest.fixture
def until() -> Until:
    """Waits for a condition, 10 s at most."""
    return _until
