from agent.hardware import hwmon
from agent.hardware.reading import Measured, run_collector
from tests.agent.hardware.conftest import Tree


def test_cores_are_kept_where_the_chip_has_no_package_sensor() -> None:
    assert hwmon.redundant_sensors({"temp2": "Core 0", "temp3": "Core 1"}) == frozenset()
    assert hwmon.redundant_sensors({"temp1": "Package id 0", "temp2": "Core 0"}) == {"temp2"}


def test_one_broken_sensor_leaves_the_others(tree: Tree) -> None:
    chip = "sys/class/hwmon/hwmon0"
    roots = tree({f"{chip}/name": "x", f"{chip}/temp1_input": "??", f"{chip}/temp2_input": "41000"})
    outcome = run_collector(hwmon.collect_hwmon, roots, lambda: 0.0)
    assert isinstance(outcome, Measured)
    assert hwmon.TEMPERATURE(41.0, "x", "temp2") in outcome.samples
    assert len(outcome.faults) == 1
    assert "temp1_input" in outcome.faults[0]
