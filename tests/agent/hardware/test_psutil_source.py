"""psutil reads the root that it was told; what it does not read from there is why the agent's own reads stay."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from agent.hardware import compute, disks, kernel_files
from agent.hardware.monitor import run_collectors
from agent.hardware.reading import Measured
from leadsman.plugin import HostRoots

if TYPE_CHECKING:
    pass


def test_a_read_of_another_root_than_the_process_was_started_with_raises(server: HostRoots) -> None:
    with pytest.raises(kernel_files.UnexpectedProcRoot, match=rf"psutil reads {server.proc} .*, not /proc"):
        kernel_files.read_by_psutil("/proc", "stat", psutil.cpu_times)


async def test_a_read_that_hangs_in_psutil_holds_up_no_other_collector(server: HostRoots) -> None:
    """A FIFO nobody writes to stands for it. psutil is called without a lock that the hanging read could hold."""
    path = Path(server.proc) / "stat"
    path.unlink()
    os.mkfifo(path)
    todo = {"cpu": compute.collect_cpu, "memory": compute.collect_memory, "disks": disks.collect_disks}
    run = await run_collectors(todo, server, time.monotonic, 0.1)
    writer = os.open(path, os.O_WRONLY)
    path.unlink()
    os.close(writer)  # the hanging read ends, and the next finds no file
    run.stuck["cpu"].thread.join(5)
    assert run.stuck.keys() == {"cpu"}
    assert {name for name, outcome in run.outcomes.items() if isinstance(outcome, Measured)} == {"memory", "disks"}
