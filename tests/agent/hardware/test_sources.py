"""What each source gives of a host: of the trees of whole hosts (server, vm, edge), and of files of a test's own."""

import errno
from pathlib import Path

import pytest
from msgspec import structs

from agent.hardware import compute, disks, hwmon, network
from agent.hardware.kernel_files import MalformedFile
from agent.hardware.reading import Measured, run_collector
from leadsman.plugin import HostRoots, NoData, SensorFault
from tests.agent.hardware.conftest import Tree, values

HEAD = "Inter-|\n face |\n"


@pytest.mark.parametrize(
    ("files", "collect", "reason"),
    [
        ({"sys/fs/cgroup/cpu/cpu.shares": "1024"}, compute.collect_cgroup, "cgroup v2"),
        (
            {f"sys/fs/cgroup/{name}": "1" for name in ("cgroup.controllers", "cgroup.type", "memory.current")},
            compute.collect_cgroup,
            "own cgroup namespace",
        ),
        ({"sys/class/net/lo/operstate": "unknown"}, network.collect_links, "no physical network device"),
    ],
)
def test_what_a_host_has_not_is_no_data(tree: Tree, files, collect, reason: str) -> None:
    with pytest.raises(NoData, match=reason):
        list(collect(tree(files)))


@pytest.mark.parametrize(
    ("files", "collect", "reason"),
    [
        (
            {"proc/stat": "cpu  250 10 100 9000 40 0 7 3 99 0\ncpu0 x"},
            compute.collect_cpu,
            r"proc/stat: .*could not convert",
        ),
        ({"proc/meminfo": "MemTotal: 8 kB"}, compute.collect_memory, r"proc/meminfo: .*MemFree"),
        ({"proc/diskstats": " 8 0 sda 1 1 4 2 3 2 6 4 0 5 6 0 0"}, disks.collect_disks, "proc/diskstats: .*not sure"),
        ({"proc/net/dev": f"{HEAD}eth0: 1 2 3"}, network.collect_network, r"net/dev.*3 columns, must be 16"),
        ({"proc/sys/net/netfilter/nf_conntrack_count": "many"}, network.collect_conntrack, "nf_conntrack_count"),
        ({"proc/sys/net/netfilter/nf_conntrack_count": ""}, network.collect_conntrack, "nf_conntrack_count"),
    ],
)
def test_a_file_of_an_unknown_form_is_named(tree: Tree, files, collect, reason: str) -> None:
    with pytest.raises(MalformedFile, match=reason):
        list(collect(tree(files)))


def test_a_kernel_without_diskstats_has_none_and_the_agents_own_sys_is_not_read(tree: Tree) -> None:
    with pytest.raises(FileNotFoundError):
        list(disks.collect_disks(tree({"proc/stat": "cpu 0"})))


def test_cores_count_their_throttling_where_the_package_counts_none(tree: Tree) -> None:
    cpu = "sys/devices/system/cpu/cpu0"
    topology = {f"{cpu}/topology/physical_package_id": "0", f"{cpu}/topology/core_id": "0"}
    roots = tree({f"{cpu}/thermal_throttle/core_throttle_count": "5", **topology})
    assert list(compute.collect_throttling(roots)) == [compute.CORE_THROTTLES(5, "0")]


# Network.


@pytest.mark.parametrize("received", ["1", " 1"])
def test_a_large_count_may_touch_the_colon(received: str) -> None:
    line = f" eth0:{received} 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
    assert network.parse(HEAD + line) == {"eth0": tuple(range(1, 17))}


@pytest.mark.parametrize(
    ("name", "ignored"),
    [(name, True) for name in ("lo", "veth12", "cali0a", "lxc9", "cni0", "docker0", "flannel.1", "eni0123456789a")]
    + [(name, False) for name in ("eth0", "ens1f0", "eno1", "enp3s0", "bond0", "wlan0", "ib0", "lo0net", "enial")],
)
def test_ends_of_pods_links_are_left_out_and_the_nodes_own_devices_kept(name: str, ignored: bool) -> None:
    assert bool(network.IGNORED_DEVICES.fullmatch(name)) is ignored


def test_a_pods_own_network_is_not_the_nodes(server: HostRoots) -> None:
    with pytest.raises(NoData, match="network namespace is not the node's"):
        list(network.collect_network(HostRoots(own_network=True)))
    with pytest.raises(NoData, match="hostNetwork"):
        list(network.collect_conntrack(structs.replace(server, own_network=True)))
    mounted = structs.replace(server, own_network=True)
    assert ("ens1f0",) in values(network.collect_network, mounted, network.RECEIVED_BYTES)


def test_the_function_below_a_synthetic_device_counts_nothing_of_its_own(tmp_path: Path) -> None:
    """As Azure's accelerated networking has it."""
    root = tmp_path / "sys/class/net"
    for name in ("eth0", "enP1s1"):
        (root / name / "device").mkdir(parents=True)
    (root / "enP1s1/master").symlink_to(root / "eth0")
    assert network.physical_devices(HostRoots(sys=str(tmp_path / "sys"))) == ["eth0"]


# Filesystems.


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # A device mounted twice counts once, at the shortest place.
        ("/dev/sda /srv/data ext4 rw 0 0\n/dev/sda /srv ext4 rw 0 0\n", {"/srv": False}),
        # statvfs on a dead NFS server hangs.
        ("filer:/x / nfs4 rw 0 0\nfiler:/y /home nfs4 rw 0 0\n//box/z /mnt cifs rw 0 0\n", {}),
        ("overlay / overlay rw,lowerdir=/l 0 0\noverlay /x overlay rw 0 0\n", {"/": False}),
        ("/dev/sda /devel ext4 rw 0 0\n/dev/sdb /sys ext4 rw 0 0\n", {"/devel": False}),
        ("/dev/sda /my\\040disk ext4 rw 0 0\n", {"/my disk": False}),
        # k0s and MicroK8s have the kubelet's folder elsewhere.
        (
            "/dev/sdb /var/lib/k0s/kubelet/pods/u/v ext4 rw 0 0\n/dev/sdc /var/lib/k0s xfs rw 0 0\n",
            {"/var/lib/k0s": False},
        ),
        ("/dev/sdb /var/snap/microk8s/common/var/lib/kubelet/plugins/v ext4 rw 0 0\n", {}),
        # Read-only is an option, not a part of one.
        ("/dev/sda / ext4 rw,errors=remount-ro 0 0\n/dev/sdb /b ext4 ro,noatime 0 0\n", {"/": False, "/b": True}),
    ],
)
def test_mounts_that_count_and_whether_they_are_read_only(text: str, found: dict[str, bool]) -> None:
    assert {mount.mountpoint: mount.read_only for mount in disks.parse(text)} == found


def test_a_broken_filesystem_is_a_fault(tree: Tree) -> None:
    def broken(path):
        raise OSError(errno.EIO, "Input/output error")

    roots = tree({"proc/1/mounts": "/dev/sda /data ext4 rw 0 0"})
    assert list(disks.collect_filesystems(roots, broken)) == [SensorFault(f"{roots.rootfs}/data: Input/output error")]


def test_the_hosts_mounts_without_the_hosts_root_are_not_mixed_up(server: HostRoots) -> None:
    with pytest.raises(NoData, match="root filesystem is not mounted"):
        list(disks.collect_filesystems(HostRoots(server.proc, server.sys)))


# Sensors.


def test_a_sensor_that_its_chip_calls_faulty_has_no_value(tree: Tree) -> None:
    readings = {"temp1_input": "41000", "temp1_fault": "0", "temp2_input": "127500", "temp2_fault": "1"}
    roots = tree({f"sys/class/hwmon/hwmon0/{name}": text for name, text in {"name": "x", **readings}.items()})
    assert values(hwmon.collect_hwmon, roots, hwmon.TEMPERATURE) == {("x", "temp1"): 41.0}


def test_one_broken_sensor_leaves_the_others(tree: Tree) -> None:
    chip = "sys/class/hwmon/hwmon0"
    roots = tree({f"{chip}/name": "x", f"{chip}/temp1_input": "??", f"{chip}/temp2_input": "41000"})
    outcome = run_collector(hwmon.collect_hwmon, roots, lambda: 0.0)
    assert isinstance(outcome, Measured)
    assert hwmon.TEMPERATURE(41.0, "x", "temp2") in outcome.samples
    assert len(outcome.faults) == 1
    assert "temp1_input" in outcome.faults[0]
