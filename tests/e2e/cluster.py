"""A Kubernetes cluster in namespaces of this machine: a control plane; nodes with containerd, kubelet and kube-proxy.

    with Cluster(binaries, folder, images) as cluster:
        cluster.kubectl("get", "nodes")

kube-scheduler runs as a service of the first node, where it reaches ClusterIPs as on a control-plane node. Nothing
touches the machine's own network. Tried with cgroup v1 only.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, Self

from leadsman.testbed import namespaces
from leadsman.testbed.etcd import die_with_parent
from leadsman.testbed.kube_apiserver import KubeApiServer
from leadsman.testbed.kube_controller_manager import KubeControllerManager
from tests.e2e.dns import ClusterDns
from tests.e2e.images import SANDBOX, SANDBOX_LAYOUT
from tests.e2e.needs import CNI_FOLDER
from tests.e2e.registry import PORT, serve_image

PATIENCE_SECONDS = 180.0
BOOT_SECONDS = 600.0
CONTROL_PLANE = "10.78.0.1"
CGROUPS = Path("/sys/fs/cgroup")
NAMES = ("edge-1", "edge-2", "edge-3", "cloud-1")
"""As the edge scheduler's demo has them."""

ALLOCATABLE_GIB = 8
"""Of each node, as there."""

PROFILES = ("default-scheduler", "custom-scheduler", "rl-scheduler")
"""The names that the demos' pods give."""

EVICTED_BELOW = 50 << 20

_MACHINE_SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
"""What a kubelet sets for the whole machine."""


class Cluster:
    """One cluster, from entry to exit. Its thread is in the control plane's network namespace meanwhile.

    folder: holds all that it writes; images: holds the archives that nodes load.
    """

    def __init__(self, binaries: Path, folder: Path, images: Path, names: Sequence[str] = NAMES) -> None:
        self.binaries, self.folder, self.images = binaries, folder, images
        self.nodes = [Node(number, name, self) for number, name in enumerate(names, 1)]
        self.prefix = namespaces.run_prefix(os.getpid())
        self._scheduler: subprocess.Popen[bytes] | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        namespaces.remove(namespaces.stale())
        with contextlib.ExitStack() as stack:
            stack.enter_context(_machine_settings())
            names = [f"{self.prefix}cp", *(node.netns for node in self.nodes)]
            namespaces.add(names)
            stack.callback(namespaces.remove, names)
            stack.enter_context(namespaces.inside(names[0]))
            namespaces.configure(_network(self.nodes))
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
            self.api = stack.enter_context(self._api_server())
            stack.enter_context(KubeControllerManager(self.binaries, self.folder / "controller-manager", self.api))
            ClusterDns(self.api, CONTROL_PLANE)
            serve_image(self.images / SANDBOX_LAYOUT, CONTROL_PLANE)
            self._let_proxies_read()
            for node in self.nodes:
                node.configure_network()
                stack.callback(node.lose)
                node.start(self.images)
            self.until(self._nodes_ready, "all nodes Ready", BOOT_SECONDS)
            self._write_scheduler_config()
            stack.callback(self._stop_scheduler)
            self.restart_scheduler()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def scheduler_config(self) -> Path:
        return self.folder / "kube-scheduler.yaml"

    @property
    def living(self) -> Sequence["Node"]:
        """The nodes that are not lost now."""
        return [node for node in self.nodes if node.runs]

    @property
    def kubernetes_version(self) -> str:
        """Such as v1.36.2."""
        return str(self.api.call("GET", "/version")["gitVersion"])

    def restart_scheduler(self) -> None:
        self._stop_scheduler()
        command = [str(self.binaries / "kube-scheduler"), f"--config={self.scheduler_config}"]
        with (self.folder / "kube-scheduler.log").open("ab") as log:
            self._scheduler = subprocess.Popen(
                self.nodes[0].inside(*command), stdout=log, stderr=log, preexec_fn=die_with_parent
            )

    def mend(self) -> None:
        """What a row that broke left undone: the API server runs, all nodes live and take pods."""
        if not self.api.runs:
            self.api.start()
        for node in self.nodes:
            if not node.runs:
                node.start(self.images)
        self.until(self._nodes_ready, "all nodes Ready", BOOT_SECONDS)
        self.kubectl("uncordon", *(node.name for node in self.nodes))

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """What it printed. RuntimeError with what it said when it failed."""
        command = [str(self.binaries / "kubectl"), *words]
        environ = os.environ | {"KUBECONFIG": str(self.api.kubeconfig())}
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, env=environ, check=False)
        if done.returncode:
            raise RuntimeError(f"kubectl {' '.join(words)}: {done.stderr}")
        return done.stdout

    def kubeconfig(self, user: str) -> dict[str, Any]:
        """For processes on nodes."""
        config: dict[str, Any] = json.loads(self.api.kubeconfig(user).read_text())
        server = config["clusters"][0]["cluster"]
        server["server"] = self.api.url.replace("127.0.0.1", CONTROL_PLANE)
        server["tls-server-name"] = "localhost"
        return config

    def until(self, true: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> float:
        """Waits for it; returns for how many seconds. What cannot be read is not true yet."""
        began, unread = time.monotonic(), ""
        while time.monotonic() < began + seconds:
            try:
                if true():
                    return time.monotonic() - began
                unread = ""
            except (OSError, HTTPException) as error:
                unread = f" ({error})"
            time.sleep(0.2)
        raise TimeoutError(f"not within {seconds:g} s: {what}{unread}; logs are in {self.folder}")

    def is_ready(self, name: str) -> bool:
        conditions = self.api.call("GET", f"/api/v1/nodes/{name}")["status"].get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def _nodes_ready(self) -> bool:
        for node in self.nodes:
            node.check()
        listed = self.api.call("GET", "/api/v1/nodes")["items"]
        return len(listed) == len(self.nodes) and all(self.is_ready(node.name) for node in self.nodes)

    def _write_scheduler_config(self) -> None:
        kubeconfig = self.folder / "kube-scheduler.json"
        kubeconfig.write_text(json.dumps(self.kubeconfig("system:kube-scheduler")))
        self.scheduler_config.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\n"
            "kind: KubeSchedulerConfiguration\n"
            f"clientConnection:\n  kubeconfig: {kubeconfig}\n"
            "leaderElection:\n  leaderElect: false\n"
            "profiles:\n" + "".join(f"  - schedulerName: {name}\n" for name in PROFILES)
        )

    def _stop_scheduler(self) -> None:
        if self._scheduler:
            self._scheduler.kill()
            self._scheduler.wait()

    def _api_server(self) -> KubeApiServer:
        users = {f"system:node:{node.name}": ["system:nodes", "system:masters"] for node in self.nodes}
        flags = [
            "--bind-address=0.0.0.0",
            f"--advertise-address={CONTROL_PLANE}",
            "--endpoint-reconciler-type=lease",
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP",  # Nobody resolves the nodes' names.
        ]
        return KubeApiServer(
            self.binaries,
            self.folder / "api",
            users={**users, "system:kube-proxy": [], "system:kube-scheduler": ["system:masters"]},
            flags=flags,
            disabled_admission=(),
        )

    def _let_proxies_read(self) -> None:
        role, user = "--clusterrole=system:node-proxier", "--user=system:kube-proxy"
        self.kubectl("create", "clusterrolebinding", "kube-proxy", role, user)


class Node:
    """One node; `start` after `lose` is a boot with the same disk."""

    def __init__(self, number: int, name: str, cluster: Cluster) -> None:
        self.number, self.name, self.address = number, name, f"10.78.0.{10 + number}"
        self.pods = f"10.89.{number}.0/24"
        self._cluster, self.folder = cluster, cluster.folder / self.name
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def netns(self) -> str:
        return f"{self._cluster.prefix}{self.name}"

    @property
    def runs(self) -> bool:
        return self._process is not None

    @property
    def cgroup(self) -> str:
        return self.netns

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
            _make_cgroup(root / self.cgroup)
        namespaces.configure([f"link set {self.name} up"])
        inside = ["nsenter", f"--net=/run/netns/{self.netns}", "unshare", "--mount", "--uts", "--pid", "--fork"]
        boot = ["--kill-child", "--mount-proc", "sh", str(Path(__file__).with_name("node_boot.sh"))]
        arguments = [self.name, str(self.folder), str(self._cluster.binaries), str(images), f"zone-{self.number}"]
        with (self.folder / "boot.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*inside, *boot, *arguments], stdout=log, stderr=log, preexec_fn=die_with_parent
            )

    def kill_kubelet(self) -> None:
        """Its service manager starts it again."""
        for pid in self._pids("kubelet"):
            os.kill(pid, signal.SIGKILL)

    def root_of_kubelet(self) -> Path:
        """The node's files as the kubelet sees them, its tmpfs mounts too. ProcessLookupError while it starts again."""
        pids = self._pids("kubelet")
        if not pids:
            raise ProcessLookupError(f"no kubelet runs on {self.name}")
        return Path("/proc", str(pids[0]), "root")

    def _pids(self, program: str) -> list[int]:
        home = Path("/run/netns", self.netns).stat().st_ino
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _runs(pid, program, home)]

    def lose(self) -> None:
        """A power cut: first the cable, so that nobody hears a dying process say goodbye."""
        if self._process is None:
            return
        namespaces.configure([f"link set {self.name} down"])
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
            for folder, _, _ in os.walk(root / self.cgroup, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        return not any((root / self.cgroup).exists() for root in _cgroup_roots())

    def _write_files(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        config = {"kubelet": f"system:node:{self.name}", "kube-proxy": "system:kube-proxy"}
        for program, user in config.items():
            (self.folder / f"{program}.json").write_text(json.dumps(self._cluster.kubeconfig(user)))
        (self.folder / "address").write_text(self.address)
        (self.folder / "resolv.conf").write_text(f"nameserver {CONTROL_PLANE}\n")
        (self.folder / "kubelet.yaml").write_text(json.dumps(self._kubelet()))
        (self.folder / "kube-proxy.yaml").write_text(json.dumps(self._kube_proxy()))
        (self.folder / "pods.conflist").write_text(json.dumps(self._pod_network()))
        (self.folder / "containerd.toml").write_text(_CONTAINERD.format(folder=self.folder))
        hosts = self.folder / "registries/docker.io/hosts.toml"
        hosts.parent.mkdir(parents=True, exist_ok=True)
        hosts.write_text(f'[host."http://{CONTROL_PLANE}:{PORT}"]\n  capabilities = ["pull", "resolve"]\n')

    def _kubelet(self) -> Mapping[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "oomScoreAdj": 0,  # Nobody may lower it without CAP_SYS_RESOURCE.
            "clusterDNS": [CONTROL_PLANE],
            "clusterDomain": "cluster.local",
            "resolvConf": str(self.folder / "resolv.conf"),
            # kube-apiserver, which forwards ports, has no certificate for kubelets; nobody else is on their network.
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            # The disk is the machine's, which others fill too.
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            # Only the model of a small node: nothing is enforced.
            "systemReserved": {"memory": str(max(0, _machine_memory() - (ALLOCATABLE_GIB << 30) - EVICTED_BELOW))},
            "enforceNodeAllocatable": [],
            "evictionHard": {
                "nodefs.available": "1%",
                "imagefs.available": "1%",
                "memory.available": str(EVICTED_BELOW),
            },
        }

    def _kube_proxy(self) -> Mapping[str, Any]:
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(self.folder / "kube-proxy.json")},
            "hostnameOverride": self.name,
            "mode": "nftables",
            "clusterCIDR": "10.89.0.0/16",
            # The machine's, and not to be set from here.
            "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        }

    def _pod_network(self) -> Mapping[str, Any]:
        ranges = {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": self.pods}]]}
        bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True}
        plugin = bridge | {"ipam": ranges | {"routes": [{"dst": "0.0.0.0/0"}]}}
        return {"cniVersion": "0.4.0", "name": "pods", "plugins": [plugin]}


_CONTAINERD = f"""version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{SANDBOX}"
  # Without CAP_SYS_RESOURCE a lower oom_score_adj is refused, and runc says only "unexpected EOF".
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{{folder}}/registries"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_FOLDER}"
    conf_dir = "/etc/cni/net.d"
"""


def _network(nodes: Sequence[Node]) -> Iterator[str]:
    """`ip` commands in the control plane's namespace: a bridge, a cable to each node, static routes to their pods."""
    yield "link set lo up"
    yield "link add nodes type bridge"
    yield f"addr add {CONTROL_PLANE}/24 dev nodes"
    yield "link set nodes up"
    for node in nodes:
        yield f"link add {node.name} type veth peer name eth0 netns {node.netns}"
        yield f"link set {node.name} master nodes up"
        yield f"route add {node.pods} via {node.address}"


def _runs(pid: int, program: str, network_namespace: int) -> bool:
    try:
        comm = Path(f"/proc/{pid}/comm").read_text().strip()
        return comm == program and Path(f"/proc/{pid}/ns/net").stat().st_ino == network_namespace
    except OSError:
        return False  # It has ended.


def _machine_memory() -> int:
    """Bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _make_cgroup(path: Path) -> None:
    """A cpuset of version 1 begins empty, and takes no process then."""
    path.mkdir(exist_ok=True)
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (path / name).is_file():
            (path / name).write_text((path.parent / name).read_text())


def _cgroup_roots() -> Sequence[Path]:
    return [path for path in CGROUPS.iterdir() if path.is_dir() and (path / "cgroup.procs").is_file()]


@contextlib.contextmanager
def _machine_settings() -> Iterator[None]:
    paths = [path for name in _MACHINE_SETTINGS if (path := Path("/proc/sys", name)).is_file()]
    before = {path: path.read_text() for path in paths}
    try:
        yield
    finally:
        for path, text in before.items():
            with contextlib.suppress(OSError):
                path.write_text(text)
