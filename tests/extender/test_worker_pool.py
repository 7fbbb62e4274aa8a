import asyncio
import gc
import threading
from contextlib import suppress
from functools import partial
from weakref import WeakSet

import pytest

from extender.worker_pool import DeadlineExceeded, WorkerPool


@pytest.fixture
def workers():
    made = WorkerPool(deadline_seconds=0.2, max_workers=2)
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
    with pytest.raises(DeadlineExceeded, match="no result within 200 ms"):
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
    async with asyncio.timeout(60):
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


@pytest.fixture
def fair():
    """Four jobs at once."""
    made = WorkerPool(deadline_seconds=30, max_running=4)
    yield made
    made.close()


async def until(fact) -> None:
    async with asyncio.timeout(60):
        while not fact():  # noqa: ASYNC110  threads tell nobody
            await asyncio.sleep(0.001)


async def test_a_namespace_with_many_jobs_does_not_keep_another_waiting(fair, gate) -> None:
    crowd = [asyncio.create_task(fair.run(gate.wait, namespace="crowd")) for _ in range(40)]
    await asyncio.sleep(0)
    assert await fair.run(lambda: 7, namespace="other") == 7
    assert fair.waiting == 39
    gate.set()
    await asyncio.gather(*crowd)


async def test_namespaces_take_turns(gate) -> None:
    pool, order = WorkerPool(deadline_seconds=30, max_running=1), list[str]()
    first = asyncio.create_task(pool.run(gate.wait, namespace="a"))
    await asyncio.sleep(0)
    jobs = [asyncio.create_task(pool.run(partial(order.append, name), namespace=name)) for name in "aaabbc"]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, *jobs)
    pool.close()
    assert "".join(order) == "abcaba"


async def test_work_in_the_queue_never_begins_once_its_caller_has_left(fair, gate) -> None:
    begun = list[int]()
    crowd = [asyncio.create_task(fair.run(gate.wait)) for _ in range(1)]
    left = asyncio.create_task(fair.run(lambda: begun.append(1)))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.wait([left])
    assert fair.waiting == 0
    gate.set()
    await asyncio.gather(*crowd)
    assert await fair.run(lambda: 7) == 7
    assert begun == []


async def test_work_in_the_queue_never_begins_past_its_deadline(fair, gate) -> None:
    crowd = [asyncio.create_task(fair.run(gate.wait)) for _ in range(1)]
    await asyncio.sleep(0)
    begun = list[int]()
    with pytest.raises(DeadlineExceeded):
        await fair.run(lambda: begun.append(1), deadline_seconds=0.01)
    gate.set()
    await asyncio.gather(*crowd)
    assert await fair.run(lambda: begun) == []


def _spin(pool: WorkerPool, ended: threading.Event) -> None:
    try:
        while True:
            pool.checkpoint()
    finally:
        ended.set()


async def test_running_work_ends_at_its_next_checkpoint_once_its_caller_has_left(fair) -> None:
    ended = threading.Event()
    task = asyncio.create_task(fair.run(lambda: _spin(fair, ended)))
    await asyncio.sleep(0)
    task.cancel()
    assert await asyncio.to_thread(ended.wait, 10)


async def test_running_work_ends_at_its_next_checkpoint_past_its_deadline(workers) -> None:
    ended = threading.Event()
    with pytest.raises(DeadlineExceeded):
        await workers.run(lambda: _spin(workers, ended))
    assert await asyncio.to_thread(ended.wait, 10)
    await until(lambda: workers.overdue == 0)


async def test_a_checkpoint_stops_nothing_that_somebody_waits_for(fair) -> None:
    assert await fair.run(fair.checkpoint) is None
    fair.checkpoint()  # Not on a worker.


async def test_callers_that_come_and_go_leave_no_thread_overdue(fair, gate) -> None:
    """Their work keeps its turn until its deadline, so that it does not fill all threads either."""
    for _ in range(40):
        task = asyncio.create_task(fair.run(gate.wait))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    assert (fair.overdue, fair.exhausted, fair.waiting) == (0, False, 0)
    assert await fair.run(lambda: 7, namespace="other") == 7


async def test_overdue_is_never_negative_when_the_caller_leaves_as_the_result_arrives(workers, gate) -> None:
    task = asyncio.create_task(workers.run(gate.wait, 5))
    await asyncio.sleep(0)
    gate.set()
    while not asyncio.get_running_loop()._ready:  # type: ignore[attr-defined]
        pass  # The loop must not run before the result is queued behind the cancellation.
    task.cancel()
    await asyncio.wait([task])
    await workers.run(lambda: None)
    assert workers.overdue == 0


async def test_a_caller_that_leaves_once_its_work_is_overdue_is_counted_once(workers, gate) -> None:
    task = asyncio.create_task(workers.run(gate.wait))
    await until(lambda: workers.overdue == 1)
    task.cancel()
    await asyncio.wait([task])
    gate.set()
    await until(lambda: workers.overdue == 0)
    await workers.run(lambda: None)
    assert workers.overdue == 0


async def test_a_result_that_waits_only_for_the_event_loop_is_delivered_past_the_deadline(workers, gate) -> None:
    loop, end = asyncio.get_running_loop(), asyncio.get_running_loop().time() + 0.02

    def finish_the_work() -> None:
        """Once the deadline's timer is next in line; until the result is behind it."""
        ready = loop._ready  # type: ignore[attr-defined]
        before = ready[-1] if ready else None
        gate.set()
        while not ready or ready[-1] is before:
            pass

    def hold_the_loop() -> None:
        while loop.time() < end + 0.02:
            pass

    loop.call_at(end, finish_the_work)
    task = asyncio.create_task(workers.run(gate.wait, deadline_seconds=0.02))
    await asyncio.sleep(0)
    loop.call_soon(hold_the_loop)
    assert await task is True


class Computed:
    """What work makes."""


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def returned(made: Computed, _: WorkerPool) -> None:
    return None


def failed(made: Computed, _: WorkerPool) -> None:
    raise KeyError("plugin")


def overran(made: Computed, workers: WorkerPool) -> None:
    while True:
        workers.checkpoint()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("end", [returned, failed, overran])
async def test_what_work_had_computed_goes_with_its_end(workers, end) -> None:
    """Each way to end was a cycle, by a traceback or a closure, and lasted until the garbage collector came."""
    made = WeakSet[Computed]()

    def work() -> Computed:
        computed = Computed()
        made.add(computed)
        end(computed, workers)
        return computed

    with suppress(KeyError, DeadlineExceeded):
        await workers.run(work, deadline_seconds=0.05)
    async with asyncio.timeout(2):
        while made:  # noqa: ASYNC110  the thread's last reference goes by itself and tells nobody
            await asyncio.sleep(0.001)
