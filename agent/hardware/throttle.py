"""How often x86 CPUs slowed down to cool. Source: Documentation/ABI/testing/sysfs-devices-system-cpu, thermal_throttle.

The sibling threads of a core share its counter, and all cores that of the package: each is counted once.
Cores are summed by package, so that the number of series does not grow with the cores.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from agent.hardware.files import names, optional, parsed
from agent.hardware.samples import NothingHere, Roots, Sample, counter

CORES = counter("cpu_core_throttles_total", "Times a core of the package was throttled.", "package")
PACKAGES = counter("cpu_package_throttles_total", "Times the package was throttled as a whole.", "package")


class Thread(Struct, frozen=True):
    """One logical CPU: where it sits and the two counters it shows. package_count None: the CPU has none."""

    package: int
    core: int
    core_count: int
    package_count: int | None


def by_package(threads: Iterable[Thread]) -> dict[int, tuple[int, int | None]]:
    """Package → throttles of its cores, of itself."""
    cores: dict[int, dict[int, int]] = {}
    packages: dict[int, int | None] = {}
    for thread in threads:
        cores.setdefault(thread.package, {})[thread.core] = thread.core_count
        packages[thread.package] = thread.package_count
    return {package: (sum(counts.values()), packages[package]) for package, counts in cores.items()}


def collect(roots: Roots) -> Iterator[Sample]:
    root = f"{roots.sys}/devices/system/cpu"
    threads = [_read(f"{root}/{name}") for name in names(root) if name.startswith("cpu") and name[3:].isdigit()]
    for package, (cores, whole) in by_package(thread for thread in threads if thread).items():
        yield CORES(cores, str(package))
        if whole is not None:
            yield PACKAGES(whole, str(package))
    if not any(threads):
        raise NothingHere("no CPU counts its throttling (x86 with the thermal interrupt does)")


def _read(path: str) -> Thread | None:
    core_count = optional(f"{path}/thermal_throttle/core_throttle_count", int)
    if core_count is None:
        return None
    package = parsed(f"{path}/topology/physical_package_id", int)
    package_count = optional(f"{path}/thermal_throttle/package_throttle_count", int)
    return Thread(package, parsed(f"{path}/topology/core_id", int), core_count, package_count)
