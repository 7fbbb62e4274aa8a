"""A Kubernetes cluster in namespaces of this machine: a control plane; nodes with containerd, kubelet and kube-proxy.

    with Cluster(binaries, folder, images) as cluster:
        cluster.kubectl("get", "nodes")

kube-scheduler runs as a service of the first node, where it reaches ClusterIPs as on a control-plane node. Nothing
touches the machine's own network. Tried with cgroup v1 only.
"""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, Self

from leadsman.testbed import namespaces
from leadsman.testbed.etcd import die_with_parent
from tests.e2e.dns import ClusterDns
from tests.e2e.images import LAYOUT, SANDBOX_LAYOUT
from tests.e2e.node import Node
from tests.e2e.node_config import CONTROL_PLANE
from tests.e2e.registry import serve_images
from tests.testbed.kube_apiserver import KubeApiServer
from tests.testbed.kube_component import KubeControllerManager

PATIENCE_SECONDS = 180.0
BOOT_SECONDS = 600.0
NAMES = ("edge-1", "edge-2", "edge-3", "cloud-1", "edge-4", "edge-5")
"""The first NODES as the edge scheduler's demo has them."""

NODES = 4

PROFILES = ("default-scheduler", "custom-scheduler", "rl-scheduler")
"""The names that the demos' pods give."""

_AS_A_STATIC_POD = ("unshare", "--pid", "--fork", "--kill-child", "sh", "-c", 'while :; do "$0" "$@"; sleep 1; done')
"""What ends is started again. kube-scheduler 1.36.2 once ended itself while the API server was away, with
"Scheduler cache is corrupted" (pkg/scheduler/backend/cache/cache.go); why is not known."""

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

    def __init__(self, binaries: Path, folder: Path, images: Path, nodes: int = NODES) -> None:
        self.binaries, self.folder, self.images = binaries, folder, images
        self.nodes = [Node(number, name, self) for number, name in enumerate(NAMES[:nodes], 1)]
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
            layouts = {layout.stem: layout for layout in self.images.glob(f"*{LAYOUT}")}
            serve_images(layouts, self.images / SANDBOX_LAYOUT, CONTROL_PLANE)
            role, user = "--clusterrole=system:node-proxier", "--user=system:kube-proxy"
            self.kubectl("create", "clusterrolebinding", "kube-proxy", role, user)
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
    def living(self) -> Sequence[Node]:
        """The nodes that are not lost now."""
        return [node for node in self.nodes if node.runs]

    def have_been_up(self, names: Collection[str], seconds: float) -> bool:
        """Tells whether these nodes live, and booted so long ago."""
        return all(node.up_seconds >= seconds for node in self.nodes if node.name in names)

    @property
    def kubernetes_version(self) -> str:
        """Such as v1.36.2."""
        return str(self.api.call("GET", "/version")["gitVersion"])

    def restart_scheduler(self) -> None:
        self._stop_scheduler()
        command = [str(self.binaries / "kube-scheduler"), f"--config={self.scheduler_config}"]
        with (self.folder / "kube-scheduler.log").open("ab") as log:
            self._scheduler = subprocess.Popen(
                self.nodes[0].inside(*_AS_A_STATIC_POD, *command), stdout=log, stderr=log, preexec_fn=die_with_parent
            )

    def skipped_extenders(self) -> int:
        """How often kube-scheduler has gone on without an answer, with `ignorable: true`."""
        return (self.folder / "kube-scheduler.log").read_text(errors="replace").count("Skipping extender as it")

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
