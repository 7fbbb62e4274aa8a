"""Collects CPU time and the number of CPUs, load averages, and how often the processors were throttled.

CPU time is from psutil, and summed over all CPUs, so that the number of series does not grow with the cores. `guest`
is part of `user` and left out. Source: proc_stat(5).
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from agent.hardware import psutil_source
from agent.hardware.kernel_files import list_directory, parse_file, parse_optional_file
from agent.hardware.samples import HostRoots, NoData, Sample, counter, gauge

MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
IDLE_MODES = ("idle", "iowait")

SECONDS = counter("cpu_seconds_total", "Seconds all CPUs together spent in each mode.", "mode")
ONLINE = gauge("cpu_online", "CPUs that are online.")


def collect_cpu(roots: HostRoots) -> Iterator[Sample]:
    yield ONLINE(psutil_source.online_cpus(roots.proc))
    for mode, seconds in psutil_source.cpu_times(roots.proc)._asdict().items():
        if mode in MODES:
            yield SECONDS(seconds, mode)


# Load averages from /proc/loadavg. Source: proc_loadavg(5).

LOAD1 = gauge("load1", "Load average over 1 minute.")
LOAD5 = gauge("load5", "Load average over 5 minutes.")
LOAD15 = gauge("load15", "Load average over 15 minutes.")


class LoadAverages(Struct, frozen=True):
    """Runnable and uninterruptible tasks, averaged."""

    load1: float
    load5: float
    load15: float


def parse(text: str) -> LoadAverages:
    load1, load5, load15 = text.split()[:3]
    return LoadAverages(float(load1), float(load5), float(load15))


def collect_load(roots: HostRoots) -> Iterator[Sample]:
    load = parse_file(f"{roots.proc}/loadavg", parse)
    yield LOAD1(load.load1)
    yield LOAD5(load.load5)
    yield LOAD15(load.load15)


# How often x86 CPUs slowed down to cool. Source: Documentation/ABI/testing/sysfs-devices-system-cpu, thermal_throttle.
#
# The sibling threads of a core share its counter, and all cores that of the package: each is counted once.
# Cores are summed by package, so that the number of series does not grow with the cores.

CORE_THROTTLES = counter("cpu_core_throttles_total", "Times a core of the package was throttled.", "package")
PACKAGE_THROTTLES = counter("cpu_package_throttles_total", "Times the package was throttled as a whole.", "package")


class LogicalCpu(Struct, frozen=True):
    """One logical CPU: where it sits and the two counters it shows. package_count None: the CPU has none."""

    package: int
    core: int
    core_count: int
    package_count: int | None


def by_package(threads: Iterable[LogicalCpu]) -> dict[int, tuple[int, int | None]]:
    """Package → throttles of its cores, of itself."""
    cores: dict[int, dict[int, int]] = {}
    packages: dict[int, int | None] = {}
    for thread in threads:
        cores.setdefault(thread.package, {})[thread.core] = thread.core_count
        packages[thread.package] = thread.package_count
    return {package: (sum(counts.values()), packages[package]) for package, counts in cores.items()}


def collect_throttling(roots: HostRoots) -> Iterator[Sample]:
    root = f"{roots.sys}/devices/system/cpu"
    threads = [
        _read(f"{root}/{name}") for name in list_directory(root) if name.startswith("cpu") and name[3:].isdigit()
    ]
    for package, (cores, whole) in by_package(thread for thread in threads if thread).items():
        yield CORE_THROTTLES(cores, str(package))
        if whole is not None:
            yield PACKAGE_THROTTLES(whole, str(package))
    if not any(threads):
        raise NoData("no CPU counts its throttling (x86 with the thermal interrupt does)")


def _read(path: str) -> LogicalCpu | None:
    core_count = parse_optional_file(f"{path}/thermal_throttle/core_throttle_count", int)
    if core_count is None:
        return None
    package = parse_file(f"{path}/topology/physical_package_id", int)
    package_count = parse_optional_file(f"{path}/thermal_throttle/package_throttle_count", int)
    return LogicalCpu(package, parse_file(f"{path}/topology/core_id", int), core_count, package_count)
