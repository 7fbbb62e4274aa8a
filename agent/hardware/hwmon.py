"""Hardware monitoring chips. Source: docs.kernel.org/hwmon/sysfs-interface.html

Units there: millidegrees Celsius, millivolts, microwatts, rpm. The chip is named as node_exporter names it, by
its device's bus and address (platform_coretemp_0), since two sockets both have a chip `coretemp`.
The temperatures of single cores are left out where the chip has one of the package, which is their maximum:
the number of series and of reads does not grow with the cores.
"""

import os
import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from agent.hardware.files import attempt, names, optional
from agent.hardware.samples import Family, Fault, Roots, Sample, gauge

TEMPERATURE = gauge("hwmon_temp_celsius", "Temperature.", "chip", "sensor")
CRITICAL = gauge("hwmon_temp_crit_celsius", "Temperature at which the hardware protects itself.", "chip", "sensor")
CHIP_NAME = gauge("hwmon_chip_names", "Always 1: the driver's name of the chip.", "chip", "chip_name")
LABEL = gauge("hwmon_sensor_label", "Always 1: the driver's label of the sensor.", "chip", "sensor", "label")

ATTRIBUTES: Mapping[tuple[str, str], tuple[Family, float]] = {
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

_FILE = re.compile(r"((temp|fan|in|power)\d+)_(\w+)")


class Attribute(Struct, frozen=True):
    """One file of a sensor: temp1_input is sensor temp1, kind temp, attribute input."""

    file: str
    sensor: str
    kind: str
    name: str


def attributes(files: list[str]) -> list[Attribute]:
    """Those of a chip's files that are read, by the table above."""
    matches = (_FILE.fullmatch(file) for file in files)
    found = (Attribute(match[0], match[1], match[2], match[3]) for match in matches if match)
    return [attribute for attribute in found if (attribute.kind, attribute.name) in ATTRIBUTES]


def left_out(labels: Mapping[str, str]) -> frozenset[str]:
    """Sensors of single cores, if there is one of the package. labels: sensor → its label."""
    if not any(label.startswith("Package id") for label in labels.values()):
        return frozenset()
    return frozenset(sensor for sensor, label in labels.items() if label.startswith("Core "))


def chip(address: str, bus: str, name: str) -> str:
    """The chip's label: bus and address of its device, else the driver's name."""
    plain = f"{bus}_{address}" if bus and address else name
    return re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_")


def collect(roots: Roots) -> Iterator[Sample | Fault]:
    root = f"{roots.sys}/class/hwmon"
    for entry in names(root):
        yield from _chip(entry, f"{root}/{entry}")


def _chip(entry: str, path: str) -> Iterator[Sample | Fault]:
    name = optional(f"{path}/name", str.strip) or entry
    label = chip(_target(f"{path}/device"), _target(f"{path}/device/subsystem"), name)
    files = names(path)
    yield CHIP_NAME(1, label, name)
    labels = {file.removesuffix("_label"): _label(f"{path}/{file}") for file in files if _is_label(file)}
    skipped = left_out(labels)
    yield from (LABEL(1, label, sensor, text) for sensor, text in labels.items() if text and sensor not in skipped)
    for attribute in attributes(files):
        if attribute.sensor not in skipped:
            yield from _value(label, attribute, f"{path}/{attribute.file}")


def _value(chip_label: str, attribute: Attribute, path: str) -> Iterator[Sample | Fault]:
    family, divisor = ATTRIBUTES[attribute.kind, attribute.name]
    match attempt(path, int):
        case int(number):
            yield family(number / divisor, chip_label, attribute.sensor)
        case Fault() as fault:
            yield fault


def _target(link: str) -> str:
    """The last part of where a symbolic link leads; empty when there is none."""
    return os.path.basename(os.path.realpath(link)) if os.path.islink(link) else ""


def _is_label(file: str) -> bool:
    match = _FILE.fullmatch(file)
    return bool(match) and file.endswith("_label")


def _label(path: str) -> str:
    return optional(path, str.strip) or ""
