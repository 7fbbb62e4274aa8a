import math
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.hardware import compute, disks, hwmon, network, nvidia
from agent.hardware.kernel_files import HostRoots
from agent.hardware.reading import HardwareReading, Measured
from agent.hardware.summary import MEASURES, summarize
from leadsman.state import metric_names
from leadsman.state.records import Hardware

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import ReadingOf, Unpacked

FS = ("/dev/sda", "ext4", "/")


def reading(at_seconds, *samples):
    return HardwareReading(at_seconds, 1, {"only": Measured(at_seconds, 0.1, samples)})


def after(*samples, before=()):
    """The summary ten seconds later."""
    return summarize(reading(100.0, *before), reading(110.0, *samples))


def cpus(busy, idle, iowait):
    return compute.SECONDS(busy, "user"), compute.SECONDS(idle, "idle"), compute.SECONDS(iowait, "iowait")


def test_the_servers_values(server: HostRoots, reading_of: "ReadingOf") -> None:
    assert summarize(None, reading_of(server)) == {
        metric_names.CPU_PRESSURE: 0.0412,
        metric_names.MEMORY_PRESSURE: 0.002,
        metric_names.IO_PRESSURE: 0.0187,
        metric_names.LOAD_PER_CPU: 0.4,
        metric_names.MEMORY_AVAILABLE: 0.7333,
        metric_names.PODS_MEMORY_USED: 0.4786,
        metric_names.SWAP_USED: 0.25,
        metric_names.FILESYSTEM_USED: 0.6316,
        metric_names.SRIOV_FREE: 2,
        metric_names.CONNTRACK_USED: 0.0695,
        metric_names.TEMPERATURE: 61.0,
        metric_names.MEMORY_ERRORS: 1,
    }


def test_a_bare_machine_leaves_out_what_it_does_not_have(unpacked: "Unpacked", reading_of: "ReadingOf") -> None:
    values = summarize(None, reading_of(unpacked("vm")))
    assert metric_names.MEMORY_AVAILABLE in values
    assert not values.keys() & {
        metric_names.TEMPERATURE,
        metric_names.SRIOV_FREE,
        metric_names.MEMORY_ERRORS,
        metric_names.SWAP_USED,
    }


def test_waiting_for_a_disk_is_not_busy() -> None:
    assert after(*cpus(13, 86, 11), before=cpus(10, 80, 10))[metric_names.CPU_BUSY] == 0.3


def test_the_busiest_disk_counts_and_never_above_one() -> None:
    before = disks.IO_SECONDS(0, "sda"), disks.IO_SECONDS(0, "sdb")
    busy = after(disks.IO_SECONDS(2, "sda"), disks.IO_SECONDS(7, "sdb"), before=before)
    assert busy[metric_names.DISK_BUSY] == 0.7
    assert after(disks.IO_SECONDS(11, "sda"), before=before)[metric_names.DISK_BUSY] == 1.0


def test_disk_bytes_are_reads_and_writes_of_all() -> None:
    before = disks.READ_BYTES(0, "sda"), disks.WRITTEN_BYTES(0, "sda"), disks.WRITTEN_BYTES(0, "sdb")
    now = disks.READ_BYTES(100, "sda"), disks.WRITTEN_BYTES(200, "sda"), disks.WRITTEN_BYTES(300, "sdb")
    assert after(*now, before=before)[metric_names.DISK_BYTES] == 60


def test_swapping_is_in_and_out() -> None:
    before = compute.SWAP_IN(0), compute.SWAP_OUT(0)
    assert after(compute.SWAP_IN(20), compute.SWAP_OUT(30), before=before)[metric_names.SWAP_PAGES] == 5


def test_bytes_on_a_bridge_do_not_count_twice() -> None:
    before = network.RECEIVED_BYTES(0, "eth0"), network.RECEIVED_BYTES(0, "bond0")
    now = network.RECEIVED_BYTES(50, "eth0"), network.RECEIVED_BYTES(50, "bond0")
    assert after(*now, network.UP(1, "eth0"), before=before)[metric_names.NETWORK_RECEIVED] == 5
    assert after(*now, before=before)[metric_names.NETWORK_RECEIVED] == 10


def network_at(device, received, sent):
    return network.RECEIVED_BYTES(received, device), network.SENT_BYTES(sent, device)


def test_headroom_is_what_the_busier_direction_leaves() -> None:
    now = *network_at("a", 400, 100), network.UP(1, "a"), network.SPEED(100, "a")
    assert after(*now, before=network_at("a", 0, 0))[metric_names.NETWORK_HEADROOM] == 60


def test_a_link_that_is_down_has_no_headroom() -> None:
    now = *network_at("a", 0, 0), network.UP(0, "a"), network.SPEED(100, "a")
    assert metric_names.NETWORK_HEADROOM not in after(*now, before=network_at("a", 0, 0))


def test_sriov_headroom_is_of_links_with_a_free_function() -> None:
    before = *network_at("a", 0, 0), *network_at("b", 0, 0)
    now = [*before, network.UP(1, "a"), network.UP(1, "b"), network.SPEED(100, "a"), network.SPEED(40, "b")]
    values = after(*now, network.VFS_FREE(0, "a"), network.VFS_FREE(3, "b"), before=before)
    assert (values[metric_names.SRIOV_HEADROOM], values[metric_names.NETWORK_HEADROOM]) == (40, 100)
    assert metric_names.SRIOV_HEADROOM not in after(*now, network.VFS_FREE(0, "a"), before=before)


def physical_function(device, limited_bits, limited, speed_bytes=1.25e9, up=1):
    return [
        network.UP(up, device),
        *([network.SPEED(speed_bytes, device)] if speed_bytes else []),
        network.VFS_ENABLED(8, device),
        network.LIMITED_BITS(limited_bits, device),
        network.LIMITED(limited, device),
    ]


def test_of_two_physical_functions_the_one_with_least_left_counts() -> None:
    values = after(*physical_function("a", 2e9, 1), *physical_function("b", 6e9, 3))
    assert values[metric_names.SRIOV_LINK_HEADROOM] == 4e9
    assert (values[metric_names.SRIOV_LIMITED], values[metric_names.SRIOV_LIMITED_FUNCTIONS]) == (8e9, 4)


@pytest.mark.parametrize("unknown", [{"speed_bytes": 0}, {"up": 0}])
def test_a_physical_function_of_unknown_speed_leaves_nothing_known(unknown) -> None:
    values = after(*physical_function("a", 0, 0), *physical_function("b", 0, 0, **unknown))
    assert metric_names.SRIOV_LINK_HEADROOM not in values


def test_a_physical_function_whose_rates_nobody_read_leaves_nothing_known() -> None:
    values = after(network.UP(1, "a"), network.SPEED(1.25e9, "a"), network.VFS_ENABLED(8, "a"))
    assert metric_names.SRIOV_LINK_HEADROOM not in values


def space(size, free, available, read_only=0, labels=FS):
    made = disks.SIZE(size, *labels), disks.FREE(free, *labels)
    return *made, disks.AVAILABLE(available, *labels), disks.READ_ONLY(read_only, *labels)


def test_filesystem_use_is_as_df_counts_it() -> None:
    assert after(*space(100, 40, 30))[metric_names.FILESYSTEM_USED] == round(60 / 90, 4)


def test_a_full_read_only_filesystem_is_no_reason() -> None:
    image = ("/dev/loop9", "squashfs", "/image")
    assert after(*space(100, 40, 40), *space(9, 0, 0, 1, image))[metric_names.FILESYSTEM_USED] == 0.6


@pytest.mark.parametrize("impossible", [-273.2, 255.0, 65261.0])
def test_an_impossible_temperature_is_no_temperature(impossible: float) -> None:
    sensors = hwmon.TEMPERATURE(impossible, "a", "temp1"), hwmon.TEMPERATURE(44, "a", "temp2")
    assert after(*sensors)[metric_names.TEMPERATURE] == 44
    assert metric_names.TEMPERATURE not in after(sensors[0])


def test_throttled_says_whether_it_happened_since_the_last_reading() -> None:
    before = compute.CORE_THROTTLES(7, "0"), compute.PACKAGE_THROTTLES(2, "0")
    assert after(*before, before=before)[metric_names.CPU_THROTTLED] == 0
    assert (
        after(compute.CORE_THROTTLES(7, "0"), compute.PACKAGE_THROTTLES(3, "0"), before=before)[
            metric_names.CPU_THROTTLED
        ]
        == 1
    )
    assert metric_names.CPU_THROTTLED not in after(*before)


def test_pods_without_a_limit_have_no_share_of_it() -> None:
    assert metric_names.PODS_MEMORY_USED not in after(compute.CGROUP_MEMORY(9, "kubepods.slice"))


def test_gpus_are_counted_and_their_load_averaged() -> None:
    gpus = [nvidia.UTILIZATION(0.2, "0", "a"), nvidia.UTILIZATION(0.6, "1", "b")]
    gpus += [family(value, *gpu) for gpu in (("0", "a"), ("1", "b")) for family, value in GPU_MEMORY]
    values = after(*gpus)
    assert (values[metric_names.GPU_COUNT], values[metric_names.GPU_BUSY], values[metric_names.GPU_MEMORY_USED]) == (
        2,
        0.4,
        0.25,
    )


GPU_MEMORY = [(nvidia.MEMORY_USED, 10), (nvidia.MEMORY_SIZE, 40)]


def test_a_node_without_cpus_online_has_no_load_a_cpu() -> None:
    assert metric_names.LOAD_PER_CPU not in after(compute.LOAD1(3), compute.ONLINE(0))


@given(st.lists(st.floats(), min_size=8, max_size=8), st.floats(), st.floats())
def test_only_finite_numbers_are_written(numbers, load1, online) -> None:
    samples = [disks.READ_BYTES(value, str(index)) for index, value in enumerate(numbers)]
    values = after(*samples, compute.LOAD1(load1), compute.ONLINE(online), before=samples[::-1])
    assert all(math.isfinite(value) for value in values.values())


def test_a_record_with_every_value_is_far_below_4_kib() -> None:
    record = Hardware(dict.fromkeys(MEASURES, 123456789012.3456))
    assert msgspec.convert(msgspec.to_builtins(record), Hardware) == record
    assert len(msgspec.json.encode(record)) < 2048
