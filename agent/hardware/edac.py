"""Memory errors that the controllers counted.

Source: Documentation/ABI/testing/sysfs-devices-edac, docs.kernel.org/driver-api/edac.html
"""

from collections.abc import Iterator

from msgspec import Struct

from agent.hardware.kernel_files import list_directory, parse_file
from agent.hardware.samples import HostRoots, NoData, Sample, counter

CORRECTABLE = counter("edac_correctable_errors_total", "Memory errors corrected.", "controller")
UNCORRECTABLE = counter("edac_uncorrectable_errors_total", "Memory errors that could not be corrected.", "controller")


class MemoryController(Struct, frozen=True):
    """Errors since the driver was loaded or the counters were reset."""

    number: str
    correctable: int
    uncorrectable: int


def parse(number: str, ce_count: str, ue_count: str) -> MemoryController:
    return MemoryController(number, int(ce_count), int(ue_count))


def collect(roots: HostRoots) -> Iterator[Sample]:
    root = f"{roots.sys}/devices/system/edac/mc"
    controllers = [name for name in list_directory(root) if name[2:].isdigit()]
    if not controllers:
        raise NoData("no memory controller reports errors (no EDAC driver, or memory without ECC)")
    for name in controllers:
        controller = parse(
            name[2:], parse_file(f"{root}/{name}/ce_count", str), parse_file(f"{root}/{name}/ue_count", str)
        )
        yield CORRECTABLE(controller.correctable, controller.number)
        yield UNCORRECTABLE(controller.uncorrectable, controller.number)
