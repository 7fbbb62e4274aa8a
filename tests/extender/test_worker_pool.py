import asyncio
import threading

import pytest

from extender.worker_pool import DeadlineExceeded, WorkerPool


@pytest.fixture
def workers():
    made = WorkerPool(deadline_seconds=0.05, max_workers=2)
    yield made
    made.close()


@pytest.fixture
def gate():
    """Work that is stuck until the test ends."""
    opened = threading.Event()
    yield opened
    opened.set()


async def test_a_result_comes_back(workers) -> None:
    assert await workers.run(lambda: 7) == 7


async def test_what_the_work_raises_is_raised(workers) -> None:
    with pytest.raises(KeyError):
        await workers.run(lambda: dict[str, int]()["x"])


async def test_one_thread_serves_calls_one_after_another(workers) -> None:
    assert len({await workers.run(threading.get_ident) for _ in range(20)}) == 1


async def test_slow_work_overruns(workers, gate) -> None:
    with pytest.raises(DeadlineExceeded, match="no result within 50 ms"):
        await workers.run(gate.wait)


async def test_another_thread_takes_the_place_of_a_stuck_one(workers, gate) -> None:
    with pytest.raises(DeadlineExceeded):
        await workers.run(gate.wait)
    assert (await workers.run(lambda: 7), workers.overdue, workers.exhausted) == (7, 1, False)


async def test_when_all_are_stuck_calls_overrun_at_once_and_liveness_fails(workers, gate) -> None:
    for _ in range(3):
        with pytest.raises(DeadlineExceeded):
            await workers.run(gate.wait)
    assert (workers.overdue, workers.exhausted) == (2, True)


async def test_a_thread_that_comes_back_works_again(workers, gate) -> None:
    for _ in range(2):
        with pytest.raises(DeadlineExceeded):
            await workers.run(gate.wait)
    gate.set()
    async with asyncio.timeout(5):
        while workers.overdue:  # noqa: ASYNC110  a thread ends by itself and tells nobody
            await asyncio.sleep(0.001)
    assert await workers.run(lambda: 7) == 7


async def test_work_that_spins_holds_nobody_else_past_the_deadline(workers, gate) -> None:
    """A loop in Python gives the interpreter up only every 5 ms."""

    def spin():
        while not gate.is_set():
            pass

    with pytest.raises(DeadlineExceeded):
        await workers.run(spin)
    assert await workers.run(lambda: 7, deadline_seconds=1) == 7


async def test_a_caller_that_leaves_does_not_lose_the_thread(workers, gate) -> None:
    task = asyncio.create_task(workers.run(gate.wait, deadline_seconds=5))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    gate.set()
    for _ in range(4):
        assert await workers.run(lambda: 7) == 7
    assert workers.overdue == 0


async def test_close_ends_idle_threads(workers) -> None:
    thread = await workers.run(threading.current_thread)
    workers.close()
    await asyncio.to_thread(thread.join, 5)
    assert not thread.is_alive()
