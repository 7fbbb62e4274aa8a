import pytest

from agent.hardware import edac
from agent.hardware.samples import NoData


def test_errors_by_controller(server, values):
    assert values(edac.collect, server, edac.CORRECTABLE) == {("0",): 17, ("1",): 0}
    assert values(edac.collect, server, edac.UNCORRECTABLE) == {("0",): 0, ("1",): 1}


def test_memory_without_ecc_is_nothing(unpacked):
    with pytest.raises(NoData, match="ECC"):
        list(edac.collect(unpacked("vm")))
