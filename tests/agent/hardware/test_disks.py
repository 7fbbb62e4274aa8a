from typing import TYPE_CHECKING

import pytest

from agent.hardware import disks
from agent.hardware.kernel_files import MalformedFile

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import Tree, Values

LINE = " 8 0 sda 10 1 4 20 30 2 6 40 0 1500 2500"


def test_sectors_are_512_bytes_and_times_milliseconds(tree: "Tree", values: "Values") -> None:
    roots = tree({"proc/diskstats": f"{LINE} 0 0 0 0 0 0"})
    families = (disks.READS, disks.READ_BYTES, disks.WRITES, disks.WRITTEN_BYTES, disks.IO_SECONDS)
    assert [values(disks.collect_disks, roots, family)[("sda",)] for family in families] == [10, 2048, 30, 3072, 1.5]
    assert values(disks.collect_disks, roots, disks.WEIGHTED_SECONDS) == {("sda",): 2.5}


def test_lines_of_older_kernels_are_shorter(tree: "Tree", values: "Values") -> None:
    assert values(disks.collect_disks, tree({"proc/diskstats": LINE}), disks.IO_SECONDS) == {("sda",): 1.5}


def test_a_kernel_without_diskstats_has_none_and_the_agents_own_sys_is_not_read(tree: "Tree") -> None:
    with pytest.raises(FileNotFoundError):
        list(disks.collect_disks(tree({"proc/stat": "cpu 0"})))


def test_a_line_of_an_unknown_form_is_named(tree: "Tree") -> None:
    with pytest.raises(MalformedFile, match=r"proc/diskstats: .*not sure how to interpret"):
        list(disks.collect_disks(tree({"proc/diskstats": f"{LINE} 0 0"})))


@pytest.mark.parametrize("device", ["sda", "sdab", "vda", "xvdf", "nvme0n1", "mmcblk0"])
def test_whole_disks_are_kept(device: str) -> None:
    assert disks.WHOLE_DISK.fullmatch(device)


@pytest.mark.parametrize("device", ["sda1", "nvme0n1p2", "mmcblk0p1", "mmcblk0boot0", "loop0", "zram0", "dm-3", "rbd0"])
def test_parts_and_volumes_are_left_out(device: str) -> None:
    assert not disks.WHOLE_DISK.fullmatch(device)
