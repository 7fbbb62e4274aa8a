"""psutil reads the root that it was told; what it does not read from there is why the agent's own reads stay."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from agent.hardware import compute, disks
from agent.hardware.monitor import run_collectors
from agent.hardware.reading import Measured
from leadsman.plugin import HostRoots

if TYPE_CHECKING:
    pass


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
