"""How often x86 CPUs slowed down to cool. Source: Documentation/ABI/testing/sysfs-devices-system-cpu, thermal_throttle.

The sibling threads of a core share its counter, and all cores that of the package: each is counted once.
Cores are summed by package, so that the number of series does not grow with the cores.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from agent.hardware.kernel_files import list_directory, parse_file, parse_optional_file
from agent.hardware.samples import HostRoots, NoData, Sample, counter

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


def collect(roots: HostRoots) -> Iterator[Sample]:
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
