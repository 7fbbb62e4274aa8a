"""Calls that nobody waits for beyond a deadline."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from extender.peers.late_calls import LateCalls


class Peer:
    """Answers when it is released, with the number of calls so far. error: raised instead."""

    def __init__(self) -> None:
        self.released, self.calls, self.ended = asyncio.Event(), 0, 0
        self.error: Exception | None = None

    async def call(self) -> int:
        self.calls += 1
        number = self.calls
        try:
            await self.released.wait()
        finally:
            self.ended += 1
        if self.error:
            raise self.error
        return number


@pytest.fixture
async def late() -> AsyncIterator[LateCalls]:
    calls = LateCalls()
    yield calls
    await calls.close()


def now() -> float:
    return asyncio.get_running_loop().time()


async def settled() -> None:
    """Everything that can go on without I/O has done so."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_a_call_in_time_returns_or_raises_what_it_does(late: LateCalls) -> None:
    peer = Peer()
    peer.released.set()
    assert await late.run("a", peer.call, now() + 60) == 1
    peer.error = OSError("refused")
    with pytest.raises(OSError, match="refused"):
        await late.run("a", peer.call, now() + 60)


async def test_who_is_late_is_not_called_again_before_it_answered(late: LateCalls) -> None:
    peer = Peer()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await late.run("a", peer.call, now())
    assert (peer.calls, peer.ended) == (1, 0), "its caller left, and it goes on"
    peer.released.set()
    await settled()
    assert await late.run("a", peer.call, now() + 60) == 2


async def test_who_is_late_holds_up_nobody_else(late: LateCalls) -> None:
    frozen, well = Peer(), Peer()
    well.released.set()
    with pytest.raises(TimeoutError):
        await late.run("frozen", frozen.call, now())
    assert await late.run("well", well.call, now() + 60) == 1


async def test_of_calls_that_are_late_together_one_goes_on(late: LateCalls) -> None:
    peer = Peer()
    calls = [late.run("a", peer.call, now()) for _ in range(5)]
    assert [type(each) for each in await asyncio.gather(*calls, return_exceptions=True)] == [TimeoutError] * 5
    await settled()
    assert (peer.calls, peer.ended) == (5, 4)


async def test_a_call_that_does_not_stop_when_it_is_cancelled_keeps_no_caller(late: LateCalls) -> None:
    stubborn, ends = Peer(), asyncio.Event()

    async def call() -> None:
        try:
            await stubborn.call()
        finally:
            await ends.wait()

    waiting = asyncio.create_task(late.run("a", call, now() + 60))
    await settled()
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    ends.set()


async def test_an_error_after_the_deadline_is_nobodys(late: LateCalls, caplog: pytest.LogCaptureFixture) -> None:
    peer = Peer()
    peer.error = OSError("reset")
    with caplog.at_level(logging.ERROR), pytest.raises(TimeoutError):
        await late.run("a", peer.call, now())
    peer.released.set()
    await late.close()
    assert not caplog.records


async def test_close_ends_what_is_late() -> None:
    late, peer = LateCalls(), Peer()
    with pytest.raises(TimeoutError):
        await late.run("a", peer.call, now())
    await late.close()
    assert peer.ended == 1
