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

from agent.hardware.kernel_files import list_directory, parse_file_or_fault, parse_optional_file, read_file
from leadsman.plugin import HostRoots, MetricFamily, Sample, SensorFault, gauge

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
"""Maps each sensor kind and attribute to its family, and to what a unit is divided by."""

_SENSOR_FILE = re.compile(r"((temp|fan|in|power)\d+)_(\w+)")


def redundant_sensors(labels: Mapping[str, str]) -> frozenset[str]:
    """Returns the sensors of single cores, if there is one of the package. labels: sensor → its label."""
    if not any(label.startswith("Package id") for label in labels.values()):
        return frozenset()
    return frozenset(sensor for sensor, label in labels.items() if label.startswith("Core "))


def chip_id(address: str, bus: str, name: str) -> str:
    """Returns the chip's label: bus and address of its device, else the driver's name."""
    plain = f"{bus}_{address}" if bus and address else name
    return re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_")


def collect_hwmon(roots: HostRoots) -> Iterator[Sample | SensorFault]:
    for entry in chips(roots):
        yield from collect_chip(entry, roots)


def chips(roots: HostRoots) -> list[str]:
    """Lists the folders of all chips, such as hwmon4."""
    return list_directory(f"{roots.sys}/class/hwmon")


def collect_chip(entry: str, roots: HostRoots) -> Iterator[Sample | SensorFault]:
    """Collects one chip. entry: its folder."""
    path = f"{roots.sys}/class/hwmon/{entry}"
    name = parse_optional_file(f"{path}/name", str.strip) or entry
    chip = chip_id(_link_basename(f"{path}/device"), _link_basename(f"{path}/device/subsystem"), name)
    yield CHIP_NAME(1, chip, name)
    files = [match for match in map(_SENSOR_FILE.fullmatch, list_directory(path)) if match]
    labels = {
        file[1]: parse_optional_file(f"{path}/{file[0]}", str.strip) or "" for file in files if file[3] == "label"
    }
    skipped = redundant_sensors(labels) | {file[1] for file in files if file[3] == "fault" and _reads_1(path, file[0])}
    yield from (LABEL(1, chip, sensor, text) for sensor, text in labels.items() if text and sensor not in skipped)
    for file in files:
        sensor, kind, attribute = file[1], file[2], file[3]
        if sensor in skipped or (kind, attribute) not in ATTRIBUTES:
            continue
        family, divisor = ATTRIBUTES[kind, attribute]
        match parse_file_or_fault(f"{path}/{file[0]}", int):
            case int(number):
                yield family(number / divisor, chip, sensor)
            case SensorFault() as fault:
                yield fault


def _reads_1(path: str, name: str) -> bool:
    """Tells whether the chip says that the sensor is broken, or that none is connected."""
    return parse_optional_file(f"{path}/{name}", str.strip) == "1"


def _link_basename(link: str) -> str:
    """Returns the last part of where a symbolic link leads; empty when there is none."""
    return os.path.basename(os.path.realpath(link)) if os.path.islink(link) else ""


# Thermal zones. Source: docs.kernel.org/driver-api/thermal/sysfs-api.html; temperatures in millidegrees Celsius.

ZONE_TEMPERATURE = gauge("thermal_zone_temp", "Temperature of the zone in degrees Celsius.", "zone", "type")


def collect_thermal(roots: HostRoots) -> Iterator[Sample | SensorFault]:
    root = f"{roots.sys}/class/thermal"
    for name in list_directory(root):
        if name.startswith("thermal_zone"):
            kind = read_file(f"{root}/{name}/type").strip()
            match parse_file_or_fault(f"{root}/{name}/temp", int):
                case int(millidegrees):
                    yield ZONE_TEMPERATURE(millidegrees / 1e3, name.removeprefix("thermal_zone"), kind)
                case SensorFault() as fault:
                    yield fault
