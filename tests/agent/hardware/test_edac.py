from typing import TYPE_CHECKING

import pytest

from agent.hardware import memory
from agent.hardware.samples import HostRoots, NoData

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import Unpacked, Values


def test_errors_by_controller(server: HostRoots, values: "Values") -> None:
    assert values(memory.collect_edac, server, memory.CORRECTABLE) == {("0",): 17, ("1",): 0}
    assert values(memory.collect_edac, server, memory.UNCORRECTABLE) == {("0",): 0, ("1",): 1}


def test_memory_without_ecc_is_nothing(unpacked: "Unpacked") -> None:
    with pytest.raises(NoData, match="ECC"):
        list(memory.collect_edac(unpacked("vm")))
