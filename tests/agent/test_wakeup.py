"""A pause that ends when somebody rings."""

import asyncio

from agent.run import Wakeup

FOR_EVER = 3600.0


async def test_it_ends_by_itself() -> None:
    async with asyncio.timeout(60):
        await Wakeup().sleep(0.01)


async def test_it_ends_when_it_rings() -> None:
    alarm = Wakeup()
    sleeping = asyncio.create_task(alarm.sleep(FOR_EVER))
    await asyncio.sleep(0)
    alarm.wake()
    async with asyncio.timeout(60):
        await sleeping


async def test_a_ring_of_before_counts_and_several_are_one() -> None:
    alarm = Wakeup()
    alarm.wake()
    alarm.wake()
    async with asyncio.timeout(60):
        await alarm.sleep(FOR_EVER)
    sleeping = asyncio.create_task(alarm.sleep(FOR_EVER))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not sleeping.done()
    sleeping.cancel()
