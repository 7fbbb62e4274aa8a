from typing import TYPE_CHECKING

import pytest

from agent.hardware import cpu
from agent.hardware.cpu import LogicalCpu
from agent.hardware.samples import HostRoots, NoData

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import Unpacked, Values


def test_sibling_threads_share_a_counter() -> None:
    assert cpu.by_package([LogicalCpu(0, 0, 5, 2), LogicalCpu(0, 0, 5, 2), LogicalCpu(0, 1, 3, 2)]) == {0: (8, 2)}


def test_equal_core_numbers_of_two_packages_are_two_cores() -> None:
    assert cpu.by_package([LogicalCpu(0, 0, 5, 1), LogicalCpu(1, 0, 7, 0)]) == {0: (5, 1), 1: (7, 0)}


def test_series_by_package(server: HostRoots, values: "Values") -> None:
    assert values(cpu.collect_throttling, server, cpu.CORE_THROTTLES) == {("0",): 7, ("1",): 13}
    assert values(cpu.collect_throttling, server, cpu.PACKAGE_THROTTLES) == {("0",): 0, ("1",): 7}


def test_cpus_without_the_counter_are_nothing(unpacked: "Unpacked") -> None:
    with pytest.raises(NoData):
        list(cpu.collect_throttling(unpacked("edge")))
