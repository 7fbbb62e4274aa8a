import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.hardware import compute, disks, hwmon, network, nvidia
from agent.hardware.reading import HardwareReading, Measured
from agent.hardware.summary import summarize
from leadsman.plugin import HostRoots
from leadsman.state import metric_names as names
from tests.agent.hardware.conftest import reading_of

FS = ("/dev/sda", "ext4", "/")


def reading(at_seconds, *samples):
    return HardwareReading(at_seconds, {"only": Measured(at_seconds, 0.1, samples)})


def after(*samples, before=()):
    """The summary ten seconds later."""
    return summarize(reading(100.0, *before), reading(110.0, *samples))


def cpus(busy, idle, iowait):
    return compute.SECONDS(busy, "user"), compute.SECONDS(idle, "idle"), compute.SECONDS(iowait, "iowait")


def test_the_servers_values(server: HostRoots) -> None:
    assert summarize(None, reading_of(server)) == {
        names.CPU_PRESSURE: 0.0412,
        names.MEMORY_PRESSURE: 0.002,
        names.IO_PRESSURE: 0.0187,
        names.LOAD_PER_CPU: 0.4,
        names.MEMORY_AVAILABLE: 0.7333,
        names.PODS_MEMORY_USED: 0.4786,
        names.SWAP_USED: 0.25,
        names.FILESYSTEM_USED: 0.6316,
        names.SRIOV_FREE: 2,
        names.CONNTRACK_USED: 0.0695,
        names.TEMPERATURE: 61.0,
        names.MEMORY_ERRORS: 1,
    }


def network_at(device, received, sent):
    return network.RECEIVED_BYTES(received, device), network.SENT_BYTES(sent, device)


def physical_function(device, limited_bits, limited, speed_bytes=1.25e9, up=1):
    return [
        network.UP(up, device),
        *([network.SPEED(speed_bytes, device)] if speed_bytes else []),
        network.VFS_ENABLED(8, device),
        network.LIMITED_BITS(limited_bits, device),
        network.LIMITED(limited, device),
    ]


def space(size, free, available, read_only=0, labels=FS):
    made = disks.SIZE(size, *labels), disks.FREE(free, *labels)
    return *made, disks.AVAILABLE(available, *labels), disks.READ_ONLY(read_only, *labels)


def throttles(core, package):
    return compute.CORE_THROTTLES(core, "0"), compute.PACKAGE_THROTTLES(package, "0")


IDLE_DISKS = disks.IO_SECONDS(0, "sda"), disks.IO_SECONDS(0, "sdb")
NO_BYTES = disks.READ_BYTES(0, "sda"), disks.WRITTEN_BYTES(0, "sda"), disks.WRITTEN_BYTES(0, "sdb")
SOME_BYTES = disks.READ_BYTES(100, "sda"), disks.WRITTEN_BYTES(200, "sda"), disks.WRITTEN_BYTES(300, "sdb")
BRIDGE = [network.RECEIVED_BYTES(0, "eth0"), network.RECEIVED_BYTES(0, "bond0")]
BRIDGED = [network.RECEIVED_BYTES(50, "eth0"), network.RECEIVED_BYTES(50, "bond0")]
A, B = network_at("a", 0, 0), network_at("b", 0, 0)
UP_A = network.UP(1, "a"), network.SPEED(100, "a")
LINKS = [*A, *B, *UP_A, network.UP(1, "b"), network.SPEED(40, "b")]
GPU_MEMORY = [(nvidia.MEMORY_USED, 10), (nvidia.MEMORY_SIZE, 40)]
GPUS = [nvidia.UTILIZATION(0.2, "0", "a"), nvidia.UTILIZATION(0.6, "1", "b")]
GPUS += [family(value, *gpu) for gpu in (("0", "a"), ("1", "b")) for family, value in GPU_MEMORY]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        # Waiting for a disk is not busy.
        (cpus(10, 80, 10), cpus(13, 86, 11), {names.CPU_BUSY: 0.3}),
        # The busiest disk counts, and never above one.
        (IDLE_DISKS, [disks.IO_SECONDS(2, "sda"), disks.IO_SECONDS(7, "sdb")], {names.DISK_BUSY: 0.7}),
        (IDLE_DISKS, [disks.IO_SECONDS(11, "sda")], {names.DISK_BUSY: 1.0}),
        (NO_BYTES, SOME_BYTES, {names.DISK_BYTES: 60}),
        ([compute.SWAP_IN(0), compute.SWAP_OUT(0)], [compute.SWAP_IN(20), compute.SWAP_OUT(30)], {names.SWAP_PAGES: 5}),
        # Bytes on a bridge do not count twice.
        (BRIDGE, [*BRIDGED, network.UP(1, "eth0")], {names.NETWORK_RECEIVED: 5}),
        (BRIDGE, BRIDGED, {names.NETWORK_RECEIVED: 10}),
        # Headroom is what the busier direction leaves; a link that is down has none.
        (A, [*network_at("a", 400, 100), *UP_A], {names.NETWORK_HEADROOM: 60}),
        (A, [*A, network.UP(0, "a"), network.SPEED(100, "a")], {names.NETWORK_HEADROOM: None}),
        # Headroom of SR-IOV is of links with a free function.
        (
            LINKS,
            [*LINKS, network.VFS_FREE(0, "a"), network.VFS_FREE(3, "b")],
            {names.SRIOV_HEADROOM: 40, names.NETWORK_HEADROOM: 100},
        ),
        (LINKS, [*LINKS, network.VFS_FREE(0, "a")], {names.SRIOV_HEADROOM: None}),
        # Of two physical functions the one with least left counts; where one is unknown, nothing is known.
        (
            (),
            [*physical_function("a", 2e9, 1), *physical_function("b", 6e9, 3)],
            {names.SRIOV_LINK_HEADROOM: 4e9, names.SRIOV_LIMITED: 8e9, names.SRIOV_LIMITED_FUNCTIONS: 4},
        ),
        *(
            (
                (),
                [*physical_function("a", 0, 0), *physical_function("b", 0, 0, **unknown)],
                {names.SRIOV_LINK_HEADROOM: None},
            )
            for unknown in ({"speed_bytes": 0}, {"up": 0})
        ),
        ((), [*UP_A, network.VFS_ENABLED(8, "a")], {names.SRIOV_LINK_HEADROOM: None}),
        # Use is as df counts it; a full read-only filesystem is no reason.
        ((), space(100, 40, 30), {names.FILESYSTEM_USED: round(60 / 90, 4)}),
        (
            (),
            [*space(100, 40, 40), *space(9, 0, 0, 1, ("/dev/loop9", "squashfs", "/image"))],
            {names.FILESYSTEM_USED: 0.6},
        ),
        # An impossible temperature is no temperature.
        *(
            ((), [hwmon.TEMPERATURE(each, "a", "temp1"), *others], {names.TEMPERATURE: celsius})
            for each in (-273.2, 255.0, 65261.0)
            for others, celsius in (([hwmon.TEMPERATURE(44, "a", "temp2")], 44), ([], None))
        ),
        # Throttled since the last reading or not; unknown without one.
        (throttles(7, 2), throttles(7, 2), {names.CPU_THROTTLED: 0}),
        (throttles(7, 2), throttles(7, 3), {names.CPU_THROTTLED: 1}),
        ((), throttles(7, 2), {names.CPU_THROTTLED: None}),
        # Pods without a limit have no share of it.
        ((), [compute.CGROUP_MEMORY(9, "kubepods.slice")], {names.PODS_MEMORY_USED: None}),
        ((), GPUS, {names.GPU_COUNT: 2, names.GPU_BUSY: 0.4, names.GPU_MEMORY_USED: 0.25}),
        ((), [compute.LOAD1(3), compute.ONLINE(0)], {names.LOAD_PER_CPU: None}),
    ],
)
def test_values_of_two_readings_ten_seconds_apart(before, now, expected) -> None:
    values = after(*now, before=before)
    assert {name: values.get(name) for name in expected} == expected


@given(st.lists(st.floats(), min_size=8, max_size=8), st.floats(), st.floats())
def test_only_finite_numbers_are_written(numbers, load1, online) -> None:
    samples = [disks.READ_BYTES(value, str(index)) for index, value in enumerate(numbers)]
    values = after(*samples, compute.LOAD1(load1), compute.ONLINE(online), before=samples[::-1])
    assert all(math.isfinite(value) for value in values.values())
