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
    from tests.agent.hardware.conftest import Tree


def test_a_read_of_another_root_than_the_process_was_started_with_raises(server: HostRoots) -> None:
    with pytest.raises(kernel_files.UnexpectedProcRoot, match=rf"psutil reads {server.proc} .*, not /proc"):
        kernel_files.cpu_times("/proc")


def test_memory_and_cpus_of_this_machine_are_those_of_the_c_library() -> None:
    proc = HostRoots().proc
    assert kernel_files.virtual_memory(proc).total == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert kernel_files.online_cpus(proc) == os.sysconf("SC_NPROCESSORS_ONLN")


def test_a_device_that_was_replaced_counts_from_zero_as_in_the_kernel(tree: "Tree") -> None:
    line = "8 0 sda {} 0 4 0 0 0 0 0 0 0 0"
    assert kernel_files.disk_io_counters(tree({"proc/diskstats": line.format(9)}).proc)["sda"].read_count == 9
    assert kernel_files.disk_io_counters(tree({"proc/diskstats": line.format(1)}).proc)["sda"].read_count == 1


def test_psutil_reads_load_averages_and_the_number_of_cpus_past_its_root(tree: "Tree") -> None:
    tree({"proc/loadavg": "99.0 99.0 99.0 1/1 1", "proc/stat": "cpu 1 2 3 4 5 6 7\ncpu0 1 2 3 4 5 6 7"})
    assert psutil.getloadavg()[0] < 99
    assert psutil.cpu_count() == os.sysconf("SC_NPROCESSORS_ONLN")


def test_psutil_reads_sensors_past_every_root(server: HostRoots) -> None:
    """The server's tree has eleven temperatures and two fans."""
    chips = {(Path(server.sys) / f"class/hwmon/hwmon{number}/name").read_text().strip() for number in range(5)}
    assert not chips & set(psutil.sensors_temperatures())
    assert not chips & set(psutil.sensors_fans())


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
