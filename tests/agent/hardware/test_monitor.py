"""Rounds on the server's tree. A FIFO nobody writes to stands for a sensor whose read never returns."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agent.hardware import compute
from agent.hardware.monitor import CollectorRun, HardwareMonitor
from agent.hardware.reading import Failed, Measured, Overdue
from leadsman.plugin import HostRoots
from leadsman.state import metric_names

DEADLINE = 1.0


class Clock:
    """Monotonic time that a test can move on."""

    offset = 0.0

    def __call__(self):
        return time.monotonic() + self.offset


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def sensor(server: HostRoots):
    """A sensor of the server made a FIFO; released at the end, so that no thread outlives the test."""
    path = Path(server.sys) / "class/hwmon/hwmon4/temp1_input"
    path.unlink()
    os.mkfifo(path)
    yield path
    release(path)


@pytest.fixture
def monitor(server: HostRoots, clock):
    return HardwareMonitor(server, clock=clock, deadline_seconds=DEADLINE)


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "hardware"]


def lasting_threads():
    """Those that do not end by themselves, as the thread of a round does just after it."""
    for thread in threads():
        thread.join(0.2)
    return threads()


def release(path):
    """Let the read return and put a plain file in the FIFO's place."""
    if not path.is_fifo():
        return
    pipe = os.open(path, os.O_RDWR)
    path.unlink()
    path.write_text("34000\n")
    os.write(pipe, b"34000\n")
    lasting_threads()
    os.close(pipe)
    for thread in threads():
        thread.join(5)
    assert threads() == []


async def test_a_stuck_sensor_is_flagged_and_the_others_are_read(monitor, sensor) -> None:
    reading = await monitor.run_round()
    assert isinstance(reading.outcomes["hwmon4"], Overdue)
    assert all(isinstance(reading.outcomes[name], Measured) for name in ("cpu", "edac", "thermal", "filesystems"))
    assert all(isinstance(reading.outcomes[f"hwmon{number}"], Measured) for number in range(4))


async def test_a_list_of_chips_that_cannot_be_read_is_a_fault_of_its_collector_alone(monitor, server, caplog) -> None:
    chips = Path(server.sys) / "class/hwmon"
    chips.rename(chips.with_name("away"))
    chips.symlink_to("hwmon")  # to itself, which also root cannot read
    outcomes = (await monitor.run_round()).outcomes
    assert [name for name, outcome in outcomes.items() if isinstance(outcome, Failed)] == ["hwmon"]
    await monitor.run_round()
    said = [record.getMessage() for record in caplog.records if "hwmon" in record.getMessage()]
    assert len(said) == 1, "once, however long it lasts"
    assert str(chips) in said[0]


async def test_its_thread_is_never_doubled(monitor, sensor, clock) -> None:
    for _ in range(5):
        await monitor.run_round()
        clock.offset += 1_000
    assert len(lasting_threads()) == 1


async def test_it_comes_back_when_it_has_finished_and_its_pause_is_over(monitor, sensor, clock) -> None:
    await monitor.run_round()
    release(sensor)
    assert isinstance((await monitor.run_round()).outcomes["hwmon4"], Overdue)
    clock.offset += 5
    assert isinstance((await monitor.run_round()).outcomes["hwmon4"], Measured)


async def test_how_old_is_too_old_follows_the_interval(server: HostRoots, clock) -> None:
    monitor = HardwareMonitor(server, clock=clock, interval_seconds=30)
    await monitor.run_round()
    assert monitor.record(clock() + 89) is not None
    assert monitor.record(clock() + 91) is None


async def test_the_second_round_knows_rates(server: HostRoots) -> None:
    now = [100.0]
    monitor = HardwareMonitor(server, clock=lambda: now[0])
    await monitor.run_round()
    disks = Path(server.proc) / "diskstats"
    disks.write_text(disks.read_text().replace(" 711220 ", " 713720 "))
    now[0] += 5
    await monitor.run_round()
    assert monitor.record(now[0]).values[metric_names.DISK_BUSY] == pytest.approx(0.5, abs=0.02)


def test_a_stuck_sensor_does_not_keep_the_process(server: HostRoots, sensor) -> None:
    """In a process of its own: it must end although the sensor's read never returns."""
    script = (
        "import asyncio, sys\n"
        "from agent.hardware.monitor import HardwareMonitor\n"
        "from leadsman.plugin import HostRoots\n"
        "monitor = HardwareMonitor(HostRoots(*sys.argv[1:]), deadline_seconds=0.1)\n"
        "print(type(asyncio.run(monitor.run_round()).outcomes['hwmon4']).__name__)\n"
    )
    roots = [server.proc, server.sys, server.rootfs]
    ended = subprocess.run(
        [sys.executable, "-c", script, *roots], capture_output=True, text=True, timeout=120, check=True
    )
    assert ended.stdout == "Overdue\n"
    assert "collector hwmon4 overran its deadline of 0.1 s: quarantined\n" in ended.stderr
    assert "Traceback" not in ended.stderr


# Threads, deadlines and what happens to a collector that does not come back. An Event stands for the stuck driver.

SAMPLE = compute.LOAD1(0.5)


@pytest.fixture
def gate():
    """Set at the test's end, so that no thread outlives it."""
    event = threading.Event()
    yield event
    event.set()
    for thread in threads():
        thread.join(5)
    assert threads() == []


async def test_a_stuck_thread_starts_nothing_when_it_comes_back(gate) -> None:
    calls = []

    def stuck(roots):
        gate.wait(30)
        yield SAMPLE

    def after(roots):
        calls.append(1)
        yield SAMPLE

    result = await CollectorRun({"stuck": stuck, "after": after}, HostRoots(), time.monotonic, 0.5).complete()
    gate.set()
    result.stuck["stuck"][1].join(5)
    assert calls == [1]


async def test_each_collector_that_finished_or_was_given_up_is_progress(gate) -> None:
    """Many sensors that hang together make a long round, and no loop that hangs."""
    seen = []

    def stuck(roots):
        gate.wait(30)
        yield SAMPLE

    def last(roots):
        seen.append(many.rounds)
        yield SAMPLE

    collectors = {"load": compute.collect_load, "stuck": stuck, "also stuck": stuck, "last": last}
    many = HardwareMonitor(HostRoots(), collectors=collectors, deadline_seconds=0.5)
    await many.run_round()
    assert seen == [3]


async def test_cancelled_it_starts_no_further_collector(gate) -> None:
    begun, calls = threading.Event(), []

    def first(roots):
        begun.set()
        gate.wait(30)
        yield SAMPLE

    def second(roots):
        calls.append(roots)
        return [SAMPLE]

    run = CollectorRun({"a": first, "b": second}, HostRoots(), time.monotonic, 30.0)
    task = asyncio.create_task(run.complete())
    await asyncio.to_thread(begun.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    [thread.join(5) for thread in threads()]
    assert calls == []
