from typing import TYPE_CHECKING

import pytest

from agent.hardware import compute
from agent.hardware.compute import LogicalCpu
from agent.hardware.kernel_files import HostRoots, NoData

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import Unpacked, Values


def test_sibling_threads_share_a_counter() -> None:
    assert compute.by_package([LogicalCpu(0, 0, 5, 2), LogicalCpu(0, 0, 5, 2), LogicalCpu(0, 1, 3, 2)]) == {0: (8, 2)}


def test_equal_core_numbers_of_two_packages_are_two_cores() -> None:
    assert compute.by_package([LogicalCpu(0, 0, 5, 1), LogicalCpu(1, 0, 7, 0)]) == {0: (5, 1), 1: (7, 0)}


def test_series_by_package(server: HostRoots, values: "Values") -> None:
    assert values(compute.collect_throttling, server, compute.CORE_THROTTLES) == {("0",): 7, ("1",): 13}
    assert values(compute.collect_throttling, server, compute.PACKAGE_THROTTLES) == {("0",): 0, ("1",): 7}


def test_cpus_without_the_counter_are_nothing(unpacked: "Unpacked") -> None:
    with pytest.raises(NoData):
        list(compute.collect_throttling(unpacked("edge")))
