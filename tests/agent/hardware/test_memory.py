from typing import TYPE_CHECKING

import pytest

from agent.hardware import compute
from agent.hardware.kernel_files import HostRoots, MalformedFile

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import Tree, Values


def test_kib_become_bytes_and_other_fields_are_left() -> None:
    assert compute.parse_memory("Cached:  2 kB\nHugePages_Total:  0\nActive(anon): 5 kB\n") == {"Cached": 2048}


def test_the_page_cache_is_the_kernels_field_without_slabs(server: HostRoots, values: "Values") -> None:
    assert values(compute.collect_memory, server, compute.CACHED) == {(): 25933176 * 1024}


def test_a_file_without_memory_is_named(tree: "Tree") -> None:
    with pytest.raises(MalformedFile, match=r"proc/meminfo: .*MemFree"):
        list(compute.collect_memory(tree({"proc/meminfo": "MemTotal: 8 kB"})))
