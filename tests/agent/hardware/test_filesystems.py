import errno
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from agent.hardware import disks
from agent.hardware.kernel_files import HostRoots, NoData, SensorFault, parse_file
from agent.hardware.reading import Measured, run_collector

if TYPE_CHECKING:
    from tests.agent.hardware.conftest import Tree, Values


def space(path):
    return SimpleNamespace(total=1000, used=600, free=350)


def mountpoints(text):
    return [mount.mountpoint for mount in disks.parse(text)]


def test_only_the_nodes_own_filesystems(server: HostRoots) -> None:
    mounts = parse_file(f"{server.proc}/1/mounts", disks.parse)
    assert [mount.mountpoint for mount in mounts] == ["/", "/boot/efi", "/data"]


def test_a_device_mounted_twice_counts_once_at_the_shortest_place() -> None:
    assert mountpoints("/dev/sda /srv/data ext4 rw 0 0\n/dev/sda /srv ext4 rw 0 0\n") == ["/srv"]


def test_network_filesystems_are_never_touched() -> None:
    """statvfs on a dead NFS server hangs."""
    assert mountpoints("filer:/x / nfs4 rw 0 0\nfiler:/y /home nfs4 rw 0 0\n//box/z /mnt cifs rw 0 0\n") == []


def test_a_containers_root_counts() -> None:
    assert mountpoints("overlay / overlay rw,lowerdir=/l 0 0\noverlay /x overlay rw 0 0\n") == ["/"]


def test_escaped_spaces_are_spaces() -> None:
    assert mountpoints("/dev/sda /my\\040disk ext4 rw 0 0\n") == ["/my disk"]


def test_read_only_is_an_option_not_a_substring() -> None:
    mounts = disks.parse("/dev/sda / ext4 rw,errors=remount-ro 0 0\n/dev/sdb /b ext4 ro,noatime 0 0\n")
    assert [mount.read_only for mount in mounts] == [False, True]


def test_free_counts_what_is_kept_for_root(tree: "Tree", values: "Values") -> None:
    roots = tree({"proc/1/mounts": "/dev/sda / ext4 rw 0 0"})
    labels = ("/dev/sda", "ext4", "/")
    collect = lambda roots: disks.collect_filesystems(roots, space)  # noqa: E731
    assert values(collect, roots, disks.SIZE) == {labels: 1000}
    assert values(collect, roots, disks.AVAILABLE) == {labels: 350}
    assert values(collect, roots, disks.FREE) == {labels: 400}
    assert values(collect, roots, disks.READ_ONLY) == {labels: 0}


def test_a_broken_filesystem_is_a_fault(tree: "Tree") -> None:
    def broken(path):
        raise OSError(errno.EIO, "Input/output error")

    roots = tree({"proc/1/mounts": "/dev/sda /data ext4 rw 0 0"})
    assert list(disks.collect_filesystems(roots, broken)) == [SensorFault(f"{roots.rootfs}/data: Input/output error")]


def test_the_hosts_mounts_without_the_hosts_root_are_not_mixed_up(server: HostRoots) -> None:
    with pytest.raises(NoData, match="root filesystem is not mounted"):
        list(disks.collect_filesystems(HostRoots(server.proc, server.sys)))


def test_this_machines_own_root_has_a_size() -> None:
    outcome = run_collector(disks.collect_filesystems, HostRoots(), lambda: 0.0)
    assert isinstance(outcome, Measured)
    assert all(sample.value > 0 for sample in outcome.samples if sample.family == disks.SIZE)
