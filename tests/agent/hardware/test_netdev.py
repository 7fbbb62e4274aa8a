from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from agent.hardware import network
from agent.hardware.kernel_files import HostRoots, MalformedFile, NoData

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import Tree, Unpacked, Values

HEAD = "Inter-|\n face |\n"
LINE = " eth0:{} 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"


@pytest.mark.parametrize("received", ["1", " 1"])
def test_a_large_count_may_touch_the_colon(received: str) -> None:
    assert network.parse(HEAD + LINE.format(received)) == (network.NetworkDevice("eth0", tuple(range(1, 17))),)


def test_columns_by_family(server: HostRoots, values: "Values") -> None:
    assert values(network.collect_network, server, network.RECEIVED_BYTES)[("ens1f0",)] == 8812044120331
    assert values(network.collect_network, server, network.SENT_BYTES)[("ens1f0",)] == 4410223120334
    assert values(network.collect_network, server, network.COUNTERS[2])[("eno1",)] == 2
    assert values(network.collect_network, server, network.COUNTERS[3])[("ens1f0",)] == 120


@pytest.mark.parametrize("name", ["lo", "veth12", "cali0a", "lxc9", "cni0", "docker0", "flannel.1", "eni0123456789a"])
def test_ends_of_pods_links_are_left_out(name: str) -> None:
    assert network.IGNORED_DEVICES.fullmatch(name)


@pytest.mark.parametrize("name", ["eth0", "ens1f0", "eno1", "enp3s0", "bond0", "wlan0", "ib0", "lo0net", "enial"])
def test_the_nodes_own_devices_are_kept(name: str) -> None:
    assert not network.IGNORED_DEVICES.fullmatch(name)


def test_without_process_1_the_own_namespace_is_read(unpacked: "Unpacked", values: "Values") -> None:
    """The edge tree has no proc/1, as under hidepid."""
    assert values(network.collect_network, unpacked("edge"), network.RECEIVED_BYTES) == {
        ("eth0",): 0,
        ("wlan0",): 9120334,
    }


def test_a_line_with_columns_missing_is_named(tree: "Tree") -> None:
    with pytest.raises(MalformedFile, match=r"net/dev.*3 columns, must be 16"):
        list(network.collect_network(tree({"proc/net/dev": HEAD + "eth0: 1 2 3"})))


def test_a_pods_own_devices_are_not_the_nodes() -> None:
    with pytest.raises(NoData, match="network namespace is not the node's"):
        list(network.collect_network(HostRoots(own_network=True)))


def test_a_mounted_proc_gives_the_hosts_devices_to_a_pod(server: HostRoots, values: "Values") -> None:
    assert ("ens1f0",) in values(
        network.collect_network, structs.replace(server, own_network=True), network.RECEIVED_BYTES
    )
