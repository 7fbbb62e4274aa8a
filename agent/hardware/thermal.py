"""Thermal zones. Source: docs.kernel.org/driver-api/thermal/sysfs-api.html; temperatures in millidegrees Celsius."""

from collections.abc import Iterator

from msgspec import Struct

from agent.hardware.files import attempt, names, read
from agent.hardware.samples import Fault, Roots, Sample, gauge

TEMPERATURE = gauge("thermal_zone_temp", "Temperature of the zone in degrees Celsius.", "zone", "type")


class Zone(Struct, frozen=True):
    number: str
    type: str
    celsius: float


def parse(number: str, kind: str, text: str) -> Zone:
    """kind and text: the zone's files `type` and `temp`."""
    return Zone(number, kind.strip(), int(text) / 1e3)


def collect(roots: Roots) -> Iterator[Sample | Fault]:
    root = f"{roots.sys}/class/thermal"
    for name in names(root):
        if name.startswith("thermal_zone"):
            yield from _samples(name.removeprefix("thermal_zone"), f"{root}/{name}")


def _samples(number: str, path: str) -> Iterator[Sample | Fault]:
    kind = read(f"{path}/type")
    match attempt(f"{path}/temp", lambda text: parse(number, kind, text)):
        case Zone() as zone:
            yield TEMPERATURE(zone.celsius, zone.number, zone.type)
        case Fault() as fault:
            yield fault
