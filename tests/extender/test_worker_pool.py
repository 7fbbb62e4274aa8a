"""Jobs on threads: each within its deadline, namespaces in turn, and nothing of one that ended stays."""

import asyncio
import gc
import threading
from contextlib import suppress
from functools import partial
from weakref import WeakSet

import pytest

from extender.worker_pool import DeadlineExceeded, WorkerPool
from tests.waiting import until


@pytest.fixture
def workers():
    made = WorkerPool(deadline_seconds=0.2, max_workers=2)
    yield made
    made.close()


@pytest.fixture
def patient():
    made = WorkerPool(deadline_seconds=30)
    yield made
    made.close()


@pytest.fixture
def gate():
    """Work that is stuck until the test ends."""
    opened = threading.Event()
    yield opened
    opened.set()


async def left(run) -> None:
    """A caller that leaves at once."""
    task = asyncio.create_task(run)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])


async def test_another_thread_takes_the_place_of_a_stuck_one_until_all_are_stuck_and_liveness_fails(workers, gate):
    with pytest.raises(DeadlineExceeded, match="no result within 200 ms"):
        await workers.run(gate.wait)
    assert (await workers.run(lambda: 7), workers.overdue, workers.exhausted) == (7, 1, False)
    for _ in range(2):
        with pytest.raises(DeadlineExceeded):
            await workers.run(gate.wait)
    assert (workers.overdue, workers.exhausted) == (2, True)
    gate.set()
    await until(lambda: not workers.overdue)
    assert await workers.run(lambda: 7) == 7


async def test_a_namespace_with_many_jobs_does_not_keep_another_waiting(patient, gate):
    crowd = [asyncio.create_task(patient.run(gate.wait, namespace="crowd")) for _ in range(40)]
    await asyncio.sleep(0)
    assert await patient.run(lambda: 7, namespace="other") == 7
    gate.set()
    await asyncio.gather(*crowd)


async def test_namespaces_take_turns(gate):
    pool, order = WorkerPool(deadline_seconds=30, max_running=1), list[str]()
    first = asyncio.create_task(pool.run(gate.wait, namespace="a"))
    await asyncio.sleep(0)
    jobs = [asyncio.create_task(pool.run(partial(order.append, name), namespace=name)) for name in "aaabbc"]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, *jobs)
    pool.close()
    assert "".join(order) == "bcabaa"


async def test_work_in_the_queue_never_begins_once_its_caller_has_left_or_its_deadline_has_passed(patient, gate):
    crowd, begun = asyncio.create_task(patient.run(gate.wait)), list[int]()
    await asyncio.sleep(0)
    await left(patient.run(lambda: begun.append(1)))
    with pytest.raises(DeadlineExceeded):
        await patient.run(lambda: begun.append(2), deadline_seconds=0.01)
    gate.set()
    await crowd
    assert await patient.run(lambda: begun) == []


def _spin(pool: WorkerPool, ended: threading.Event) -> None:
    try:
        while True:
            pool.checkpoint()
    finally:
        ended.set()


async def test_running_work_ends_at_its_next_checkpoint_past_its_deadline(workers):
    ended = threading.Event()
    with pytest.raises(DeadlineExceeded):
        await workers.run(lambda: _spin(workers, ended))
    assert await asyncio.to_thread(ended.wait, 10)
    await until(lambda: workers.overdue == 0)


async def test_callers_that_come_and_go_fill_neither_threads_nor_turns(patient, gate):
    """What runs for one that left keeps its turn until its deadline."""
    for _ in range(40):
        await left(patient.run(gate.wait))
    assert (patient.overdue, patient.exhausted) == (0, False)
    assert await patient.run(lambda: 7, namespace="other") == 7
    gate.set()
    assert await patient.run(lambda: 7) == 7


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
async def test_what_work_had_computed_goes_with_its_end(workers, end):
    """Each way to end was a cycle, by a traceback or a closure, and lasted until the garbage collector came."""
    made = WeakSet[Computed]()

    def work() -> Computed:
        computed = Computed()
        made.add(computed)
        end(computed, workers)
        return computed

    with suppress(KeyError, DeadlineExceeded):
        await workers.run(work, deadline_seconds=0.05)
    await until(lambda: not made)
