from typing import TYPE_CHECKING

import pytest

from agent.hardware import compute
from agent.hardware.kernel_files import HostRoots, NoData

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import Unpacked, Values


def test_errors_by_controller(server: HostRoots, values: "Values") -> None:
    assert values(compute.collect_edac, server, compute.CORRECTABLE) == {("0",): 17, ("1",): 0}
    assert values(compute.collect_edac, server, compute.UNCORRECTABLE) == {("0",): 0, ("1",): 1}


def test_memory_without_ecc_is_nothing(unpacked: "Unpacked") -> None:
    with pytest.raises(NoData, match="ECC"):
        list(compute.collect_edac(unpacked("vm")))
