"""Our own parsers and psutil read the same /proc of this machine and must agree. psutil is the second opinion."""

import psutil
import pytest

from agent.hardware import cpu, disks, filesystems, loadavg, memory, netdev
from agent.hardware.samples import HostRoots

HERE = HostRoots()


def test_cpu_seconds(values):
    ours, theirs = values(cpu.collect, HERE, cpu.SECONDS), psutil.cpu_times()
    for mode in cpu.MODES:
        assert ours[(mode,)] == pytest.approx(getattr(theirs, mode), abs=2.0)


def test_cpus_online(values):
    assert values(cpu.collect, HERE, cpu.ONLINE) == {(): psutil.cpu_count()}


def test_load(values):
    assert values(loadavg.collect, HERE, loadavg.LOAD15)[()] == pytest.approx(psutil.getloadavg()[2], abs=0.1)


def test_memory(values):
    theirs = psutil.virtual_memory()
    assert values(memory.collect, HERE, memory.TOTAL) == {(): theirs.total}
    assert values(memory.collect, HERE, memory.AVAILABLE)[()] == pytest.approx(theirs.available, rel=0.05)


def test_swap(values):
    assert values(memory.collect, HERE, memory.SWAP_TOTAL) == {(): psutil.swap_memory().total}


def test_disk_bytes(values):
    ours, theirs = values(disks.collect, HERE, disks.READ_BYTES), psutil.disk_io_counters(perdisk=True)
    for (device,), read_bytes in ours.items():
        assert read_bytes == pytest.approx(theirs[device].read_bytes, rel=0.05, abs=64 * 2**20)


def test_network_bytes(values):
    theirs = psutil.net_io_counters(pernic=True)
    for (device,), received_bytes in values(netdev.collect, HERE, netdev.RECEIVED_BYTES).items():
        if device in theirs:  # process 1 may live in another network namespace
            assert received_bytes == pytest.approx(theirs[device].bytes_recv, rel=0.05, abs=2**20)


def test_no_filesystem_of_a_network_or_the_kernel(values):
    known = {part.mountpoint for part in psutil.disk_partitions(all=False)} | {"/"}
    assert {labels[2] for labels in values(filesystems.collect, HERE, filesystems.SIZE)} <= known
