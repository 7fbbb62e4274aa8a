from typing import TYPE_CHECKING

import pytest

from agent.hardware import network
from agent.hardware.kernel_files import HostRoots, NoData

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import Tree, Values


def test_mbit_become_bytes_per_second() -> None:
    assert network.parse_speed("25000\n") == 3_125_000_000


def test_a_speed_of_minus_one_is_unknown() -> None:
    assert network.parse_speed("-1\n") is None


def test_only_physical_functions_are_links(server: HostRoots, values: "Values") -> None:
    """Not lo and cni0, which are virtual, and not the virtual functions ens1f0v0 and v2."""
    assert values(network.collect_links, server, network.UP) == {("eno1",): 1, ("ens1f0",): 1, ("ens1f1",): 0}


def test_a_link_that_is_down_has_no_speed(server: HostRoots, values: "Values") -> None:
    assert values(network.collect_links, server, network.SPEED) == {("eno1",): 125e6, ("ens1f0",): 3125e6}


def test_virtual_functions_whose_device_is_still_here_are_free(server: HostRoots, values: "Values") -> None:
    assert values(network.collect_links, server, network.VFS_POSSIBLE) == {("ens1f0",): 8, ("ens1f1",): 8}
    assert values(network.collect_links, server, network.VFS_ENABLED) == {("ens1f0",): 4, ("ens1f1",): 0}
    assert values(network.collect_links, server, network.VFS_FREE) == {("ens1f0",): 2, ("ens1f1",): 0}


def test_no_physical_device_is_nothing(tree: "Tree") -> None:
    with pytest.raises(NoData):
        list(network.collect_links(tree({"sys/class/net/lo/operstate": "unknown"})))
