from typing import TYPE_CHECKING

import pytest

from agent.hardware import compute
from agent.hardware.kernel_files import HostRoots, NoData

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import Tree, Unpacked, Values


def test_max_is_no_limit() -> None:
    assert compute.parse_limit("max\n") is None
    assert compute.parse_limit("4096\n") == 4096


def test_the_slice_of_all_pods(server: HostRoots, values: "Values") -> None:
    assert values(compute.collect_cgroup, server, compute.CGROUP_MEMORY)[("kubepods.slice",)] == 30112044032
    assert values(compute.collect_cgroup, server, compute.CGROUP_MEMORY_MAX) == {("kubepods.slice",): 62914560000}
    assert values(compute.collect_cgroup, server, compute.CGROUP_CPU_SECONDS)[("kubepods.slice",)] == 81203.34412
    assert values(compute.collect_cgroup, server, compute.CGROUP_THROTTLED_SECONDS)[("kubepods.slice",)] == 120.334412
    assert values(compute.collect_cgroup, server, compute.CGROUP_EVENTS)[("kubepods.slice", "oom_kill")] == 2
    assert values(compute.collect_cgroup, server, compute.CGROUP_WAITING)[("kubepods.slice", "io")] == 301.223344


def test_the_root_has_no_memory_files(server: HostRoots, values: "Values") -> None:
    assert ("/",) in values(compute.collect_cgroup, server, compute.CGROUP_CPU_SECONDS)
    assert ("/",) not in values(compute.collect_cgroup, server, compute.CGROUP_MEMORY)


def test_a_hybrid_host_has_its_hierarchy_one_below(unpacked: "Unpacked", values: "Values") -> None:
    assert values(compute.collect_cgroup, unpacked("vm"), compute.CGROUP_CPU_SECONDS).keys() == {("/",)}


def test_version_1_alone_is_nothing(tree: "Tree") -> None:
    with pytest.raises(NoData, match="cgroup v2"):
        list(compute.collect_cgroup(tree({"sys/fs/cgroup/cpu/cpu.shares": "1024"})))


def test_the_root_of_a_pods_own_cgroup_namespace_is_not_the_nodes(tree: "Tree") -> None:
    files = {"cgroup.controllers": "cpu", "cgroup.type": "domain", "cpu.stat": "usage_usec 1", "memory.current": "1"}
    with pytest.raises(NoData, match="own cgroup namespace"):
        list(compute.collect_cgroup(tree({f"sys/fs/cgroup/{name}": text for name, text in files.items()})))
