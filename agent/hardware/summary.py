"""Summarises two successive readings as the values of a Hardware record: about twenty, whatever the size of the node.

Pure. A value that cannot be known (no such hardware, a collector that failed, a counter that was reset, no reading
before this one) is absent.
"""

import math
from collections.abc import Callable, Mapping

from agent.hardware import compute, disks, hwmon, network, nvidia
from agent.hardware.kernel_files import Labels
from agent.hardware.reading import HardwareReading, ReadingDelta, delta_between
from leadsman.plugin import MetricFamily
from leadsman.state import metric_names

Values = Mapping[Labels, float]

CUSTOM_PREFIX = "custom_"
"""Names of plugins' metrics begin with this."""

MAX_CUSTOM = 16

PLAUSIBLE_CELSIUS = (-55.0, 150.0)
"""The widest range of silicon sensors; drivers show e.g. -273.2 or 255 for "no value"."""


MeasureFunction = Callable[[ReadingDelta], float | None]


def summarize(before: HardwareReading | None, after: HardwareReading) -> dict[str, float]:
    """Maps each well-known name to its value, all finite, rounded to 4 digits after the point."""
    change = delta_between(before, after)
    values = ((name, measure(change)) for name, measure in MEASURES.items())
    known = {name: round(value, 4) for name, value in values if value is not None and math.isfinite(value)}
    return known | _custom(after)


def _custom(after: HardwareReading) -> dict[str, float]:
    """Returns plugins' gauges without labels, so many that the record stays within its bytes."""
    gauges = {
        sample.family.name: round(sample.value, 4)
        for sample, _ in after.samples()
        if sample.family.name.startswith(CUSTOM_PREFIX) and sample.family.kind == "gauge" and not sample.labels
    }
    return {name: gauges[name] for name in sorted(gauges)[:MAX_CUSTOM]}


def _single(family: MetricFamily) -> MeasureFunction:
    return lambda change: change.values(family).get(())


def _total(family: MetricFamily) -> MeasureFunction:
    return lambda change: _sum(change.values(family))


def _sum(values: Values) -> float | None:
    return sum(values.values()) if values else None


def _share(part: MeasureFunction, whole: MeasureFunction) -> MeasureFunction:
    """Returns part / whole; unknown when either is, or the whole is nothing."""
    return lambda change: _divided(part(change), whole(change))


def _divided(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _swap_used(change: ReadingDelta) -> float | None:
    free = _share(_single(compute.SWAP_FREE), _single(compute.SWAP_TOTAL))(change)
    return None if free is None else 1 - free


def _cpu_busy(change: ReadingDelta) -> float | None:
    grown = change.growth(compute.SECONDS)
    idle = sum(seconds for (mode,), seconds in grown.items() if mode in compute.IDLE_MODES)
    return _divided(sum(grown.values()) - idle, sum(grown.values()))


def _rates(*families: MetricFamily) -> MeasureFunction:
    def measure(change: ReadingDelta) -> float | None:
        rates = [rate for family in families for rate in change.rates(family).values()]
        return sum(rates) if rates else None

    return measure


def _disk_busy(change: ReadingDelta) -> float | None:
    return min(max(change.rates(disks.IO_SECONDS).values()), 1.0) if change.rates(disks.IO_SECONDS) else None


def _filesystem_used(change: ReadingDelta) -> float | None:
    """Returns how full the fullest writable file system is, as df counts it: the share taken of what a plain user could
    have."""
    sizes, free, read_only = (change.values(each) for each in (disks.SIZE, disks.FREE, disks.READ_ONLY))
    used = {
        labels: _divided(sizes[labels] - free[labels], sizes[labels] - free[labels] + available)
        for labels, available in change.values(disks.AVAILABLE).items()
        if not read_only[labels]
    }
    return max((share for share in used.values() if share is not None), default=None)


def _physical(change: ReadingDelta, rates: Values) -> Values:
    """Only devices with hardware behind them, so that a bridge or bond does not count its members' bytes twice."""
    physical = change.values(network.UP)
    return {labels: rate for labels, rate in rates.items() if labels in physical} if physical else rates


def _network(family: MetricFamily) -> MeasureFunction:
    return lambda change: _sum(_physical(change, change.rates(family)))


def _headrooms(change: ReadingDelta) -> dict[Labels, float]:
    """Maps each device to the bytes per second that the busier direction leaves of its speed, for links that are up."""
    sent, speeds = change.rates(network.SENT_BYTES), change.values(network.SPEED)
    received = change.rates(network.RECEIVED_BYTES)
    up = [
        labels for labels, value in change.values(network.UP).items() if value and labels in speeds and labels in sent
    ]
    return {labels: max(speeds[labels] - max(sent[labels], received.get(labels, 0.0)), 0.0) for labels in up}


def _headroom(change: ReadingDelta) -> float | None:
    return max(_headrooms(change).values(), default=None)


def _sriov_headroom(change: ReadingDelta) -> float | None:
    free = change.values(network.VFS_FREE)
    return max((room for labels, room in _headrooms(change).items() if free.get(labels)), default=None)


def _link_headroom(change: ReadingDelta) -> float | None:
    """Returns what the physical function with least headroom has left; unknown when one of them is, because a pod may
    get any."""
    enabled = [labels for labels, count in change.values(network.VFS_ENABLED).items() if count]
    speeds, limited = change.values(network.SPEED), change.values(network.LIMITED_BITS)
    up = change.values(network.UP)
    if not enabled or not all(up.get(each) and each in speeds and each in limited for each in enabled):
        return None
    return min(speeds[each] * 8 - limited[each] for each in enabled)


def _max_celsius(change: ReadingDelta) -> float | None:
    families = (hwmon.TEMPERATURE, hwmon.ZONE_TEMPERATURE)
    celsius = (value for family in families for value in change.values(family).values())
    return max((value for value in celsius if PLAUSIBLE_CELSIUS[0] <= value <= PLAUSIBLE_CELSIUS[1]), default=None)


def _throttled(change: ReadingDelta) -> float | None:
    grown = [*change.growth(compute.CORE_THROTTLES).values(), *change.growth(compute.PACKAGE_THROTTLES).values()]
    return float(any(grown)) if grown else None


def _pods_memory(change: ReadingDelta) -> float | None:
    current, limits = change.values(compute.CGROUP_MEMORY), change.values(compute.CGROUP_MEMORY_MAX)
    pods = [labels for labels in (("kubepods.slice",), ("kubepods",)) if labels in current and labels in limits]
    return _divided(current[pods[0]], limits[pods[0]]) if pods else None


def _gpu_busy(change: ReadingDelta) -> float | None:
    busy = change.values(nvidia.UTILIZATION)
    return _divided(_sum(busy), len(busy))


MEASURES: Mapping[str, MeasureFunction] = {
    metric_names.CPU_PRESSURE: _single(compute.WAITING_RATIO["cpu"]),
    metric_names.MEMORY_PRESSURE: _single(compute.WAITING_RATIO["memory"]),
    metric_names.IO_PRESSURE: _single(compute.WAITING_RATIO["io"]),
    metric_names.CPU_BUSY: _cpu_busy,
    metric_names.LOAD_PER_CPU: _share(_single(compute.LOAD1), _single(compute.ONLINE)),
    metric_names.MEMORY_AVAILABLE: _share(_single(compute.MEMORY_AVAILABLE), _single(compute.MEMORY_TOTAL)),
    metric_names.PODS_MEMORY_USED: _pods_memory,
    metric_names.SWAP_USED: _swap_used,
    metric_names.SWAP_PAGES: _rates(compute.SWAP_IN, compute.SWAP_OUT),
    metric_names.DISK_BUSY: _disk_busy,
    metric_names.DISK_BYTES: _rates(disks.READ_BYTES, disks.WRITTEN_BYTES),
    metric_names.FILESYSTEM_USED: _filesystem_used,
    metric_names.NETWORK_RECEIVED: _network(network.RECEIVED_BYTES),
    metric_names.NETWORK_SENT: _network(network.SENT_BYTES),
    metric_names.NETWORK_HEADROOM: _headroom,
    metric_names.SRIOV_FREE: _total(network.VFS_FREE),
    metric_names.SRIOV_HEADROOM: _sriov_headroom,
    metric_names.SRIOV_LINK_HEADROOM: _link_headroom,
    metric_names.SRIOV_LIMITED: _total(network.LIMITED_BITS),
    metric_names.SRIOV_LIMITED_FUNCTIONS: _total(network.LIMITED),
    metric_names.CONNTRACK_USED: _share(_single(network.ENTRIES), _single(network.LIMIT)),
    metric_names.TEMPERATURE: _max_celsius,
    metric_names.CPU_THROTTLED: _throttled,
    metric_names.MEMORY_ERRORS: _total(compute.UNCORRECTABLE),
    metric_names.GPU_COUNT: lambda change: len(change.values(nvidia.MEMORY_SIZE)) or None,
    metric_names.GPU_BUSY: _gpu_busy,
    metric_names.GPU_MEMORY_USED: _share(_total(nvidia.MEMORY_USED), _total(nvidia.MEMORY_SIZE)),
}
