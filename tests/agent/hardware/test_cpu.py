from typing import TYPE_CHECKING

import pytest

from agent.hardware import compute
from agent.hardware.kernel_files import HostRoots, MalformedFile

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import Tree, Values

FIRST = "cpu  250 10 100 9000 40 0 7 3 99 0"


def test_ticks_become_seconds_by_mode_over_all_cpus(tree: "Tree", values: "Values") -> None:
    roots = tree({"proc/stat": f"{FIRST}\ncpu0 125 5 50 4500 20 0 4 1 0 0\nintr 9"})
    assert values(compute.collect_cpu, roots, compute.SECONDS) == {
        ("user",): 2.5,
        ("nice",): 0.1,
        ("system",): 1.0,
        ("idle",): 90.0,
        ("iowait",): 0.4,
        ("irq",): 0.0,
        ("softirq",): 0.07,
        ("steal",): 0.03,
    }


def test_only_numbered_lines_count_as_cpus(server: HostRoots, values: "Values") -> None:
    assert values(compute.collect_cpu, server, compute.ONLINE) == {(): 8.0}


def test_a_line_without_numbers_is_named(tree: "Tree") -> None:
    with pytest.raises(MalformedFile, match=r"proc/stat: .*could not convert"):
        list(compute.collect_cpu(tree({"proc/stat": f"{FIRST}\ncpu0 x"})))
