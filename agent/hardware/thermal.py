"""Thermal zones. Source: docs.kernel.org/driver-api/thermal/sysfs-api.html; temperatures in millidegrees Celsius."""

from collections.abc import Iterator

from msgspec import Struct

from agent.hardware.kernel_files import list_directory, parse_file_or_fault, read_file
from agent.hardware.samples import HostRoots, Sample, SensorFault, gauge

TEMPERATURE = gauge("thermal_zone_temp", "Temperature of the zone in degrees Celsius.", "zone", "type")


class ThermalZone(Struct, frozen=True):
    number: str
    type: str
    celsius: float


def parse(number: str, kind: str, text: str) -> ThermalZone:
    """kind and text: the zone's files `type` and `temp`."""
    return ThermalZone(number, kind.strip(), int(text) / 1e3)


def collect(roots: HostRoots) -> Iterator[Sample | SensorFault]:
    root = f"{roots.sys}/class/thermal"
    for name in list_directory(root):
        if name.startswith("thermal_zone"):
            yield from _samples(name.removeprefix("thermal_zone"), f"{root}/{name}")


def _samples(number: str, path: str) -> Iterator[Sample | SensorFault]:
    kind = read_file(f"{path}/type")
    match parse_file_or_fault(f"{path}/temp", lambda text: parse(number, kind, text)):
        case ThermalZone() as zone:
            yield TEMPERATURE(zone.celsius, zone.number, zone.type)
        case SensorFault() as fault:
            yield fault
