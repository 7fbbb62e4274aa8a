from typing import TYPE_CHECKING

from agent.hardware import hwmon
from agent.hardware.kernel_files import HostRoots, SensorFault

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import Tree, Values


def test_zones_by_number_and_type(server: HostRoots, values: "Values") -> None:
    expected = {("0", "x86_pkg_temp"): 61.0, ("1", "x86_pkg_temp"): 58.0}
    assert values(hwmon.collect_thermal, server, hwmon.ZONE_TEMPERATURE) == expected


def test_a_broken_zone_is_a_fault_beside_the_others(tree: "Tree") -> None:
    zone = "sys/class/thermal/thermal_zone"
    roots = tree({f"{zone}0/type": "a", f"{zone}0/temp": "hot", f"{zone}1/type": "b", f"{zone}1/temp": "5000"})
    fault, sample = hwmon.collect_thermal(roots)
    assert isinstance(fault, SensorFault)
    assert "thermal_zone0/temp: 'hot" in fault.message
    assert sample == hwmon.ZONE_TEMPERATURE(5.0, "1", "b")
