import os
from typing import TYPE_CHECKING

import pytest

from agent.hardware import hwmon, kernel_files
from agent.hardware.reading import Measured, run_collector
from leadsman.plugin import HostRoots

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import Tree, Unpacked, Values

PACKAGES = {("platform_coretemp_0", "temp1"): 61.0, ("platform_coretemp_1", "temp1"): 58.0}


def family(kind, name):
    return hwmon.ATTRIBUTES[kind, name][0]


def test_two_chips_of_one_name_are_told_apart_by_their_address(server: HostRoots, values: "Values") -> None:
    temperatures = values(hwmon.collect_hwmon, server, hwmon.TEMPERATURE)
    assert {labels: value for labels, value in temperatures.items() if "coretemp" in labels[0]} == PACKAGES


def test_units_become_volts_watts_and_celsius(server: HostRoots, values: "Values") -> None:
    assert values(hwmon.collect_hwmon, server, family("in", "input"))[("platform_nct6775_656", "in3")] == 3.344
    assert values(hwmon.collect_hwmon, server, family("power", "average")) == {("acpi_acpi000d_00", "power1"): 182.0}
    assert values(hwmon.collect_hwmon, server, family("fan", "input"))[("platform_nct6775_656", "fan2")] == 987
    assert values(hwmon.collect_hwmon, server, hwmon.CRITICAL)[("pci_nvme0", "temp1")] == 84.85


def test_labels_stand_in_a_series_of_their_own(server: HostRoots, values: "Values") -> None:
    labels = values(hwmon.collect_hwmon, server, hwmon.LABEL)
    assert ("platform_coretemp_0", "temp1", "Package id 0") in labels
    assert ("platform_nct6775_656", "temp7", "PCH_CHIP_TEMP") in labels


def test_a_chip_without_a_device_goes_by_its_name(unpacked: "Unpacked", values: "Values") -> None:
    assert values(hwmon.collect_hwmon, unpacked("edge"), hwmon.TEMPERATURE) == {("cpu_thermal", "temp1"): 71.083}


def test_an_undervolted_board_says_so(unpacked: "Unpacked", values: "Values") -> None:
    alarms = values(hwmon.collect_hwmon, unpacked("edge"), family("in", "lcrit_alarm"))
    assert alarms == {("platform_raspberrypi_hwmon", "in0"): 1}


def test_cores_are_kept_where_the_chip_has_no_package_sensor() -> None:
    assert hwmon.redundant_sensors({"temp2": "Core 0", "temp3": "Core 1"}) == frozenset()
    assert hwmon.redundant_sensors({"temp1": "Package id 0", "temp2": "Core 0"}) == {"temp2"}


def test_one_broken_sensor_leaves_the_others(tree: "Tree") -> None:
    chip = "sys/class/hwmon/hwmon0"
    roots = tree({f"{chip}/name": "x", f"{chip}/temp1_input": "??", f"{chip}/temp2_input": "41000"})
    outcome = run_collector(hwmon.collect_hwmon, roots, lambda: 0.0)
    assert isinstance(outcome, Measured)
    assert hwmon.TEMPERATURE(41.0, "x", "temp2") in outcome.samples
    assert len(outcome.faults) == 1
    assert "temp1_input" in outcome.faults[0]


def test_a_sensor_that_answers_an_io_error_is_a_fault(tree: "Tree", monkeypatch: pytest.MonkeyPatch) -> None:
    chip = "sys/class/hwmon/hwmon0"
    roots = tree({f"{chip}/name": "x", f"{chip}/fan1_input": "900"})
    real = kernel_files.read_file

    def read(path):
        if path.endswith("fan1_input"):
            raise OSError(5, os.strerror(5), path)
        return real(path)

    monkeypatch.setattr(kernel_files, "read_file", read)
    assert run_collector(hwmon.collect_hwmon, roots, lambda: 0.0).faults == (
        f"{roots.sys}/class/hwmon/hwmon0/fan1_input: Input/output error",
    )
