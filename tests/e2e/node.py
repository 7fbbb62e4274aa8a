"""One node of the cluster, in namespaces of its own: it boots, loses its power, and boots with the same disk."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from leadsman.testbed import namespaces
from leadsman.testbed.etcd import die_with_parent
from tests.e2e import node_config
from tests.e2e.node_config import CONTROL_PLANE

if TYPE_CHECKING:
    from tests.e2e.cluster import Cluster

CGROUPS = Path("/sys/fs/cgroup")
CPU_SHARES = 16 * 1024
"""Of a node's pods together, where a process outside has 1,024."""


class Node:
    """One node; `start` after `lose` is a boot with the same disk."""

    def __init__(self, number: int, name: str, cluster: "Cluster") -> None:
        self.number, self.name, self.address = number, name, f"10.78.0.{10 + number}"
        self.pods = f"10.89.{number}.0/24"
        self._cluster, self.folder = cluster, cluster.folder / self.name
        self._process: subprocess.Popen[bytes] | None = None
        self._booted_at = 0.0

    @property
    def netns(self) -> str:
        return f"{self._cluster.prefix}{self.name}"

    @property
    def runs(self) -> bool:
        return self._process is not None

    @property
    def up_seconds(self) -> float:
        """Returns for how long it has had power; 0 while it has none."""
        return time.monotonic() - self._booted_at if self.runs else 0.0

    def configure_network(self) -> None:
        with namespaces.inside(self.netns):
            namespaces.configure(
                [
                    "link set lo up",
                    f"addr add {self.address}/24 dev eth0",
                    "link set eth0 up",
                    f"route add default via {CONTROL_PLANE}",
                    *(f"route add {other.pods} via {other.address}" for other in self._cluster.nodes if other != self),
                ]
            )
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")

    def start(self, images: Path) -> None:
        self._write_files()
        for root in _cgroup_roots():
            _make_cgroup(root / self.netns)
        namespaces.configure([f"link set {self.name} up"])
        inside = ["nsenter", f"--net=/run/netns/{self.netns}", "unshare", "--mount", "--uts", "--pid", "--fork"]
        boot = ["--kill-child", "--mount-proc", "sh", str(Path(__file__).with_name("node_boot.sh"))]
        arguments = [self.name, str(self.folder), str(self._cluster.binaries), str(images), f"zone-{self.number}"]
        with (self.folder / "boot.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*inside, *boot, *arguments], stdout=log, stderr=log, preexec_fn=die_with_parent
            )
        self._booted_at = time.monotonic()

    def kill_kubelet(self) -> None:
        """Its service manager starts it again."""
        for pid in self.kubelets():
            os.kill(pid, signal.SIGKILL)

    def root_of_kubelet(self) -> Path:
        """The node's files as the kubelet sees them, its tmpfs mounts too. ProcessLookupError while it starts again."""
        pids = self.kubelets()
        if not pids:
            raise ProcessLookupError(f"no kubelet runs on {self.name}")
        return Path("/proc", str(pids[0]), "root")

    def kubelets(self) -> list[int]:
        """Their process ids."""
        home = Path("/run/netns", self.netns).stat().st_ino
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_kubelet(pid, home)]

    def unplug(self) -> None:
        namespaces.configure([f"link set {self.name} down"])

    def lose(self) -> None:
        """A power cut: first the cable, so that nobody hears a dying process say goodbye."""
        if self._process is None:
            return
        self.unplug()
        self._process.kill()
        self._process.wait()
        self._process = None
        self._cluster.until(self._cgroups_are_gone, f"the processes of {self.name} are gone", 30)
        for command in (["ip", "link", "del", "cni0"], ["nft", "flush", "ruleset"], ["conntrack", "-F"]):
            subprocess.run(self.inside(*command), capture_output=True, check=False)

    def check(self) -> None:
        """RuntimeError, with the end of its log, when it did not boot."""
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(f"{self.name} ended: {(self.folder / 'boot.log').read_text()[-500:]}")

    def inside(self, *command: str) -> Sequence[str]:
        """The command, in the node's network."""
        return ["nsenter", f"--net=/run/netns/{self.netns}", *command]

    def _cgroups_are_gone(self) -> bool:
        for root in _cgroup_roots():
            for folder, _, _ in os.walk(root / self.netns, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        return not any((root / self.netns).exists() for root in _cgroup_roots())

    def _write_files(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        config = {"kubelet": f"system:node:{self.name}", "kube-proxy": "system:kube-proxy"}
        for program, user in config.items():
            (self.folder / f"{program}.json").write_text(json.dumps(self._cluster.kubeconfig(user)))
        (self.folder / "address").write_text(self.address)
        (self.folder / "resolv.conf").write_text(f"nameserver {CONTROL_PLANE}\n")
        (self.folder / "kubelet.yaml").write_text(json.dumps(node_config.kubelet(self.folder, self.netns)))
        (self.folder / "kube-proxy.yaml").write_text(json.dumps(node_config.kube_proxy(self.folder, self.name)))
        (self.folder / "pods.conflist").write_text(json.dumps(node_config.pod_network(self.pods)))
        (self.folder / "containerd.toml").write_text(node_config.CONTAINERD.format(folder=self.folder))
        hosts = self.folder / "registries/_default/hosts.toml"
        hosts.parent.mkdir(parents=True, exist_ok=True)
        hosts.write_text(node_config.registries())


def _is_kubelet(pid: int, network_namespace: int) -> bool:
    try:
        comm = Path(f"/proc/{pid}/comm").read_text().strip()
        return comm == "kubelet" and Path(f"/proc/{pid}/ns/net").stat().st_ino == network_namespace
    except OSError:
        return False  # It has ended.


def _make_cgroup(path: Path) -> None:
    """A cpuset of version 1 begins empty, and takes no process then.

    A node's pods compete with the kubelets of all nodes here, not with one: by default they would weigh as much as
    one of those processes.
    """
    path.mkdir(exist_ok=True)
    if (path / "cpu.shares").is_file():
        (path / "cpu.shares").write_text(str(CPU_SHARES))
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (path / name).is_file():
            (path / name).write_text((path.parent / name).read_text())


def _cgroup_roots() -> Sequence[Path]:
    return [path for path in CGROUPS.iterdir() if path.is_dir() and (path / "cgroup.procs").is_file()]
