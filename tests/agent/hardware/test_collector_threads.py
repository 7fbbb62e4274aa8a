"""Threads, deadlines and what happens to a collector that does not come back. An Event stands for the stuck driver."""

import asyncio
import threading
import time

import pytest

from agent.hardware import compute
from agent.hardware.monitor import run_collectors
from leadsman.plugin import HostRoots

SAMPLE = compute.LOAD1(0.5)
DEADLINE = 0.5


@pytest.fixture
def gate():
    """Set at the test's end, so that no thread outlives it."""
    event = threading.Event()
    yield event
    event.set()
    for thread in hardware_threads():
        thread.join(5)
    assert hardware_threads() == []


def hardware_threads():
    return [thread for thread in threading.enumerate() if thread.name == "hardware"]


def stuck_at(event):
    def collect(roots):
        event.wait(30)
        yield SAMPLE

    return collect


def swept(todo):
    return run_collectors(todo, HostRoots(), time.monotonic, DEADLINE)


async def test_a_stuck_thread_starts_nothing_when_it_comes_back(gate) -> None:
    calls = []

    def after(roots):
        calls.append(1)
        yield SAMPLE

    result = await swept({"stuck": stuck_at(gate), "after": after})
    gate.set()
    result.stuck["stuck"].thread.join(5)
    assert calls == [1]


async def test_cancelled_it_starts_no_further_collector(gate) -> None:
    begun, calls = threading.Event(), []

    def first(roots):
        begun.set()
        gate.wait(30)
        yield SAMPLE

    def second(roots):
        calls.append(roots)
        return [SAMPLE]

    task = asyncio.create_task(run_collectors({"a": first, "b": second}, HostRoots(), time.monotonic, 30.0))
    await asyncio.to_thread(begun.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    [thread.join(5) for thread in hardware_threads()]
    assert calls == []
