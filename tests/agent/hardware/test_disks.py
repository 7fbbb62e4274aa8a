import pytest

from agent.hardware import disks


def test_sectors_are_512_bytes_and_times_milliseconds():
    line = " 8 0 sda 10 1 4 20 30 2 6 40 0 1500 2500 0 0 0 0 0 0\n"
    assert disks.parse(line) == (disks.Disk("sda", 10, 2048, 30, 3072, 1.5, 2.5),)


def test_lines_of_older_kernels_are_shorter():
    assert disks.parse("8 0 sda 1 0 2 0 1 0 2 0 0 7 9\n")[0].io_seconds == 0.007


@pytest.mark.parametrize("device", ["sda", "sdab", "vda", "xvdf", "nvme0n1", "mmcblk0"])
def test_whole_disks_are_kept(device):
    assert disks.WHOLE_DISK.fullmatch(device)


@pytest.mark.parametrize("device", ["sda1", "nvme0n1p2", "mmcblk0p1", "mmcblk0boot0", "loop0", "zram0", "dm-3", "rbd0"])
def test_parts_and_volumes_are_left_out(device):
    assert not disks.WHOLE_DISK.fullmatch(device)
