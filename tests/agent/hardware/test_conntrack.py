from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from agent.hardware import network
from agent.hardware.kernel_files import HostRoots
from agent.hardware.reading import Absent, run_collector

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import Tree, Unpacked, Values


def test_entries_and_limit(server: HostRoots, values: "Values") -> None:
    assert values(network.collect_conntrack, server, network.ENTRIES) == {(): 18230}
    assert values(network.collect_conntrack, server, network.LIMIT) == {(): 262144}


def test_without_the_module_there_is_none(unpacked: "Unpacked") -> None:
    outcome = run_collector(network.collect_conntrack, unpacked("edge"), lambda: 0.0)
    assert isinstance(outcome, Absent)
    assert "nf_conntrack_count" in outcome.reason


def test_a_pods_own_table_is_not_the_nodes(server: HostRoots) -> None:
    outcome = run_collector(network.collect_conntrack, structs.replace(server, own_network=True), lambda: 0.0)
    assert isinstance(outcome, Absent)
    assert "hostNetwork" in outcome.reason


@pytest.mark.parametrize("text", ["", "many"])
def test_text_that_is_no_number_is_named(tree: "Tree", text: str) -> None:
    with pytest.raises(ValueError, match="nf_conntrack_count"):
        list(network.collect_conntrack(tree({"proc/sys/net/netfilter/nf_conntrack_count": text})))
