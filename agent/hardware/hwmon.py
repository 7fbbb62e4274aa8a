"""Collects temperatures, fans, voltages and power of hwmon's chips, and the thermal zones.

Source: docs.kernel.org/hwmon/sysfs-interface.html

Units there: millidegrees Celsius, millivolts, microwatts, rpm. The chip is named as node_exporter names it, by
its device's bus and address (platform_coretemp_0), since two sockets both have a chip `coretemp`.
The temperatures of single cores are left out where the chip has one of the package, which is their maximum:
the number of series and of reads does not grow with the cores.
"""

import os
import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from agent.hardware.kernel_files import (
    HostRoots,
    MetricFamily,
    Sample,
    SensorFault,
    gauge,
    list_directory,
    parse_file_or_fault,
    parse_optional_file,
    read_file,
)

TEMPERATURE = gauge("hwmon_temp_celsius", "Temperature.", "chip", "sensor")
CRITICAL = gauge("hwmon_temp_crit_celsius", "Temperature at which the hardware protects itself.", "chip", "sensor")
CHIP_NAME = gauge("hwmon_chip_names", "Always 1: the driver's name of the chip.", "chip", "chip_name")
LABEL = gauge("hwmon_sensor_label", "Always 1: the driver's label of the sensor.", "chip", "sensor", "label")

ATTRIBUTES: Mapping[tuple[str, str], tuple[MetricFamily, float]] = {
    ("temp", "input"): (TEMPERATURE, 1e3),
    ("temp", "max"): (gauge("hwmon_temp_max_celsius", "Upper bound of the normal range.", "chip", "sensor"), 1e3),
    ("temp", "crit"): (CRITICAL, 1e3),
    ("fan", "input"): (gauge("hwmon_fan_rpm", "Fan speed in revolutions per minute.", "chip", "sensor"), 1),
    ("in", "input"): (gauge("hwmon_in_volts", "Voltage.", "chip", "sensor"), 1e3),
    ("in", "lcrit_alarm"): (gauge("hwmon_in_lcrit_alarm", "1: the voltage is critically low.", "chip", "sensor"), 1),
    ("power", "input"): (gauge("hwmon_power_watt", "Power drawn now.", "chip", "sensor"), 1e6),
    ("power", "average"): (gauge("hwmon_power_average_watt", "Power drawn on average.", "chip", "sensor"), 1e6),
}
"""Sensor kind, attribute → family, what a unit is divided by."""

_SENSOR_FILE = re.compile(r"((temp|fan|in|power)\d+)_(\w+)")


class SensorAttribute(Struct, frozen=True):
    """One file of a sensor: temp1_input is sensor temp1, kind temp, attribute input."""

    file: str
    sensor: str
    kind: str
    name: str


def parse_attributes(files: list[str]) -> list[SensorAttribute]:
    """Those of a chip's files that are read, by the table above."""
    matches = (_SENSOR_FILE.fullmatch(file) for file in files)
    attributes = (SensorAttribute(match[0], match[1], match[2], match[3]) for match in matches if match)
    return [attribute for attribute in attributes if (attribute.kind, attribute.name) in ATTRIBUTES]


def redundant_sensors(labels: Mapping[str, str]) -> frozenset[str]:
    """Sensors of single cores, if there is one of the package. labels: sensor → its label."""
    if not any(label.startswith("Package id") for label in labels.values()):
        return frozenset()
    return frozenset(sensor for sensor, label in labels.items() if label.startswith("Core "))


def chip_id(address: str, bus: str, name: str) -> str:
    """The chip's label: bus and address of its device, else the driver's name."""
    plain = f"{bus}_{address}" if bus and address else name
    return re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_")


def collect_hwmon(roots: HostRoots) -> Iterator[Sample | SensorFault]:
    for entry in chips(roots):
        yield from collect_chip(entry, roots)


def chips(roots: HostRoots) -> list[str]:
    """The folders of all chips, such as hwmon4."""
    return list_directory(f"{roots.sys}/class/hwmon")


def collect_chip(entry: str, roots: HostRoots) -> Iterator[Sample | SensorFault]:
    """Collects one chip. entry: its folder."""
    path = f"{roots.sys}/class/hwmon/{entry}"
    name = parse_optional_file(f"{path}/name", str.strip) or entry
    label = chip_id(_link_basename(f"{path}/device"), _link_basename(f"{path}/device/subsystem"), name)
    files = list_directory(path)
    yield CHIP_NAME(1, label, name)
    labels = {file.removesuffix("_label"): _label(f"{path}/{file}") for file in files if _is_label(file)}
    skipped = redundant_sensors(labels)
    yield from (LABEL(1, label, sensor, text) for sensor, text in labels.items() if text and sensor not in skipped)
    for attribute in parse_attributes(files):
        if attribute.sensor not in skipped:
            yield from _value(label, attribute, f"{path}/{attribute.file}")


def _value(chip_label: str, attribute: SensorAttribute, path: str) -> Iterator[Sample | SensorFault]:
    family, divisor = ATTRIBUTES[attribute.kind, attribute.name]
    match parse_file_or_fault(path, int):
        case int(number):
            yield family(number / divisor, chip_label, attribute.sensor)
        case SensorFault() as fault:
            yield fault


def _link_basename(link: str) -> str:
    """The last part of where a symbolic link leads; empty when there is none."""
    return os.path.basename(os.path.realpath(link)) if os.path.islink(link) else ""


def _is_label(file: str) -> bool:
    match = _SENSOR_FILE.fullmatch(file)
    return bool(match) and file.endswith("_label")


def _label(path: str) -> str:
    return parse_optional_file(path, str.strip) or ""


# Thermal zones. Source: docs.kernel.org/driver-api/thermal/sysfs-api.html; temperatures in millidegrees Celsius.

ZONE_TEMPERATURE = gauge("thermal_zone_temp", "Temperature of the zone in degrees Celsius.", "zone", "type")


class ThermalZone(Struct, frozen=True):
    number: str
    type: str
    celsius: float


def parse(number: str, kind: str, text: str) -> ThermalZone:
    """kind and text: the zone's files `type` and `temp`."""
    return ThermalZone(number, kind.strip(), int(text) / 1e3)


def collect_thermal(roots: HostRoots) -> Iterator[Sample | SensorFault]:
    root = f"{roots.sys}/class/thermal"
    for name in list_directory(root):
        if name.startswith("thermal_zone"):
            yield from _samples(name.removeprefix("thermal_zone"), f"{root}/{name}")


def _samples(number: str, path: str) -> Iterator[Sample | SensorFault]:
    kind = read_file(f"{path}/type")
    match parse_file_or_fault(f"{path}/temp", lambda text: parse(number, kind, text)):
        case ThermalZone() as zone:
            yield ZONE_TEMPERATURE(zone.celsius, zone.number, zone.type)
        case SensorFault() as fault:
            yield fault
