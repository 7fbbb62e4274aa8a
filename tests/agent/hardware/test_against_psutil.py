"""What the agent reads itself agrees with what psutil says of this machine."""

from typing import TYPE_CHECKING

import psutil
import pytest

from agent.hardware import compute, disks, network
from leadsman.plugin import HostRoots

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import Values

HERE = HostRoots()


def test_load(values: "Values") -> None:
    assert values(compute.collect_load, HERE, compute.LOAD15)[()] == pytest.approx(psutil.getloadavg()[2], abs=0.1)


def test_network_bytes(values: "Values") -> None:
    theirs = psutil.net_io_counters(pernic=True)
    for (device,), received_bytes in values(network.collect_network, HERE, network.RECEIVED_BYTES).items():
        if device in theirs:  # process 1 may live in another network namespace
            assert received_bytes == pytest.approx(theirs[device].bytes_recv, rel=0.05, abs=2**20)


def test_no_filesystem_of_a_network_or_the_kernel(values: "Values") -> None:
    known = {part.mountpoint for part in psutil.disk_partitions(all=False)} | {"/"}
    assert {labels[2] for labels in values(disks.collect_filesystems, HERE, disks.SIZE)} <= known
