"""max_tx_rate of virtual functions, from the kernel's own dump and from the bytes of one with virtual functions."""

import contextlib
import struct
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.hardware import network
from agent.hardware.network import BadDump, is_complete, physical_functions, read_link_dump
from leadsman.plugin import HostRoots, NoData
from tests.agent.hardware.conftest import Tree, values


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", len(value) + 4, kind) + value + bytes(-len(value) % 4)


def link(name: str, rates: list[int] | None, old: bool = False) -> bytes:
    """RTM_NEWLINK as rtnl_fill_ifinfo (net/core/rtnetlink.c) writes it: IFLA_NUM_VF, then IFLA_VFINFO_LIST; in each
    IFLA_VF_INFO the MAC (1), VLAN (2), TX_RATE (3), SPOOFCHK (4), LINK_STATE (5), RATE (6)."""
    body = struct.pack("=BxHiII", 0, 1, 2, 0x11043, 0) + attribute(3, name.encode() + b"\0")
    if rates is not None:
        infos = b""
        for vf, rate in enumerate(rates):
            info = attribute(1, struct.pack("=I", vf) + bytes(32)) + attribute(2, struct.pack("=III", vf, 0, 0))
            info += attribute(3, struct.pack("=II", vf, rate)) + attribute(4, struct.pack("=II", vf, 1))
            if not old:
                info += attribute(6, struct.pack("=III", vf, 50, rate))
            infos += attribute(1 | 0x8000, info)
        body += attribute(21, struct.pack("=I", len(rates))) + attribute(22 | 0x8000, infos)
    return struct.pack("=IHHII", len(body) + 16, 16, 2, 1, 4711) + body


DONE = struct.pack("=IHHII", 20, 3, 2, 1, 4711) + bytes(4)
DUMP = link("lo", None) + link("ens1f0", [2000, 0, 500, 0]) + link("ens1f1", []) + DONE


@pytest.mark.parametrize("old", [False, True])
def test_rates_are_read_function_by_function(old: bool) -> None:
    dump = link("eno1", None) + link("ens1f0", [2000, 0, 500], old=old) + DONE
    assert list(physical_functions(dump)) == [("ens1f0", [2000, 0, 500])]


def test_a_function_without_a_rate_is_not_counted_as_limited(server: HostRoots) -> None:
    collector = partial(network.collect_sriov, read_dump=lambda: DUMP)
    assert values(collector, server, network.LIMITED_BITS) == {("ens1f0",): 2.5e9, ("ens1f1",): 0}
    assert values(collector, server, network.LIMITED) == {("ens1f0",): 2, ("ens1f1",): 0}


def test_the_links_of_pods_are_not_dumped_where_no_driver_knows_virtual_functions(tree: Tree) -> None:
    roots = tree({"sys/class/net/eth0/device/vendor": "0x1af4", "sys/class/net/veth1/operstate": "up"})
    with pytest.raises(NoData):
        list(network.collect_sriov(roots, lambda: pytest.fail("dumped")))


def test_this_kernel_answers_the_request_with_a_complete_dump() -> None:
    dump = read_link_dump()
    assert is_complete(dump)
    assert all(device for device, _ in physical_functions(dump))


def test_a_dump_that_the_kernel_refused_says_so() -> None:
    refused = struct.pack("=IHHIIi", 20, 2, 0, 1, 0, -1)
    with pytest.raises(BadDump, match="errno 1"):
        list(physical_functions(refused))


@given(st.integers(1, len(DUMP) - 1))
def test_a_dump_that_is_cut_is_complete_nowhere_or_bad(length: int) -> None:
    with contextlib.suppress(BadDump):
        assert not is_complete(DUMP[:length])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_dump_or_bad(data: bytes) -> None:
    with contextlib.suppress(BadDump):
        list(physical_functions(data + DONE))
