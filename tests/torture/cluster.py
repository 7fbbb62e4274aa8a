"""The cluster that is tortured: etcd of three members, 8 nodes in namespaces, two of everything that answers.

Each node has a /proc of its own, so that a row can put load on one. extender-b reaches etcd through proxies, which a
row can silence. What the run itself stops is noted in the log as Down.
"""

import asyncio
import base64
import contextlib
import io
import itertools
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from leadsman.cli import main
from leadsman.testbed.etcd import Etcd, free_ports
from leadsman.testbed.virtual_network import Uplinks, VirtualNetwork
from tests.host_trees import HOSTS, unpack
from tests.leadsman_process import LeadsmanProcess
from tests.testbed.etcd_members import create_members
from tests.testbed.scripted_api_server import ApiServerThread, RecordedRequest
from tests.testbed.tcp_proxy import TcpProxy
from tests.testbed.wall_clock import WallClocks
from tests.torture import shape
from tests.torture.log import Down, Evicted, LeaseWritten, NodeWritten, Observation

AGENT_PORT = 9102
HOT_LOAD, CALM_LOAD = 4.0, 0.1
"""Load averages on two CPUs: over and under the target of the policy `hot`, which is 1 a CPU."""

I915, CARD_MEMORY = "gpu.intel.com/i915", "gpu.intel.com/memory.max"
CARDS = {I915: "20", CARD_MEMORY: f"{shape.CARDS_A_NODE * shape.CARD_GB}G"}

ROOM = {"cpu": "8", "memory": "32Gi", "pods": "40"}

DAEMONSET = Path(__file__).parents[2] / "daemonset"
MANIFEST_OF = {
    "agent": "base/agent.yaml",
    "extender": "base/extender.yaml",
    "controller": "components/controller/controller.yaml",
}
POLICIES = "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies"
STARTED_WITHIN_SECONDS = 90.0


class Cluster:
    """Builds everything in `running()`, and removes it at the end; the logs stay in `folder`."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.log: list[Observation] = []
        self.evicted_at: dict[str, float] = {}  # By the UID of the pod.
        self.era = self.etcd_panics = 0
        self.processes: dict[str, LeadsmanProcess] = {}
        self._down_since: dict[str, float] = {}
        self.host_of = {node: node for node in shape.NODES}  # The namespace in which the node's agent runs.

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            self._build(stack)
            self.proxies = [await stack.enter_async_context(TcpProxy(member.port)) for member in self.etcd]
            self.http = await stack.enter_async_context(aiohttp.ClientSession())
            stack.callback(self._end_processes)
            self._fill_api_server()
            for name in (*shape.AGENTS, *shape.EXTENDERS, *shape.CONTROLLERS):
                self.start(name)
            yield

    def _build(self, stack: contextlib.AsyncExitStack) -> None:
        delays = {
            pair: abs(shape.NODES[pair[0]] - shape.NODES[pair[1]]) for pair in itertools.combinations(shape.NODES, 2)
        }
        self.net = stack.enter_context(VirtualNetwork(list(shape.NODES), delays, self.seed))
        self.uplinks = stack.enter_context(Uplinks(self.net))
        self.etcd = self._etcd_members()
        for member in self.etcd:
            stack.callback(member.stop)
            member.start(wait=False)
        for member in self.etcd:
            member.wait_until_healthy()
        self.api = stack.enter_context(ApiServerThread(host="0.0.0.0", on_write=self._on_write))
        self.clocks = WallClocks(self.folder)
        for node in shape.NODES:
            unpack((HOSTS / "vm.tree").read_text(), self.host_root(node))
            self.set_load(node, CALM_LOAD)
        with contextlib.redirect_stdout(io.StringIO()):
            main.main(["certs", "create", "--dir", str(self.certs)])
        self._ports = {name: free_ports(3) for name in (*shape.EXTENDERS, *shape.CONTROLLERS)}
        for name in shape.CONTROLLERS:
            (self.folder / f"{name}.token").write_text(name)

    def _etcd_members(self) -> list[Etcd]:
        # A process that is killed loses nothing that the kernel has; only a power cut needs fsync.
        members = create_members(self.folder / "etcd", 3, ["--quota-backend-bytes=33554432", "--unsafe-no-fsync"])
        for member in members:
            urls = ",".join(f"http://{address}:{member.port}" for address in ("127.0.0.1", self.uplinks.local_address))
            member.flags = (*member.flags, f"--listen-client-urls={urls}")
        return members

    # Processes.

    @property
    def certs(self) -> Path:
        return self.folder / "certs"

    def host_root(self, node: str) -> Path:
        return self.folder / "hosts" / node

    def is_down(self, name: str) -> bool:
        """Whether the run itself holds it down."""
        return name in self._down_since

    def start(self, name: str) -> None:
        """Starts it, in place of the one that ended; `until_ready` notes when it is back."""
        self._down_since.setdefault(name, time.monotonic())
        arguments, url, ops_url, prefix = self._command(name)
        log, environ = self.folder / f"{name}.log", self.clocks.environ(name)
        people = f"http://127.0.0.1:{self._ports[name][2]}" if name in shape.EXTENDERS else ""
        self.processes[name] = LeadsmanProcess(arguments, url, ops_url, log, prefix, environ, api_url=people)

    def second(self, name: str, *more: str) -> LeadsmanProcess:
        """Another process like this one, with flags that make the difference. Its caller ends it."""
        arguments, url, ops_url, prefix = self._command(name)
        return LeadsmanProcess([*arguments, *more], url, ops_url, self.folder / f"second-{name}.log", prefix)

    def kill(self, *names: str) -> None:
        for name in names:
            self._down_since.setdefault(name, time.monotonic())
            self.processes[name].kill()

    def terminate(self, name: str) -> None:
        """Sends SIGTERM; returns at once."""
        self._down_since.setdefault(name, time.monotonic())
        self.processes[name].child.send_signal(signal.SIGTERM)

    def freeze(self, *names: str) -> None:
        for name in names:
            self._down_since.setdefault(name, time.monotonic())
            self.processes[name].freeze()

    async def thaw(self, *names: str) -> None:
        for name in names:
            self.processes[name].thaw()
        await self.until_ready(*names)

    async def restart(self, *names: str) -> None:
        for name in names:
            self.start(name)
        await self.until_ready(*names)

    async def until_ready(self, *names: str) -> None:
        """Until each answers, which ends its time as Down."""
        for name in names:
            path = "/readyz" if name in shape.EXTENDERS else "/healthz"
            await self.until(partial(self._answers, name, path), f"{name} {path}")
            since = self._down_since.pop(name, None)
            if since is not None:
                self.log.append(Down(since, name, time.monotonic()))

    async def until(self, true: Callable[[], Any], what: str, seconds: float = STARTED_WITHIN_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while True:
            met = true()
            if await met if asyncio.iscoroutine(met) else met:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {seconds:g} s: {what}")
            await asyncio.sleep(0.05)

    async def _answers(self, name: str, path: str) -> bool:
        status, _ = await self.get(self.processes[name].ops_url + path, 1.0)
        return status == 200

    async def get(self, url: str, timeout_seconds: float) -> tuple[int, bytes]:
        """Status and body; 0 when nobody answers in time."""
        try:
            async with self.http.get(url, timeout=aiohttp.ClientTimeout(total=timeout_seconds)) as answer:
                return answer.status, await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError):
            return 0, b""

    def _end_processes(self) -> None:
        for process in self.processes.values():
            process.child.kill()
        for process in self.processes.values():
            process.child.wait()

    def _command(self, name: str) -> tuple[Sequence[str], str, str, Sequence[str]]:
        """Arguments, URL, ops URL, and what runs it in its namespace."""
        kind, _, rest = name.partition("-")
        if kind == "agent":
            return self._agent_command(rest)
        port, ops, people = self._ports[name]
        ops_url = f"http://127.0.0.1:{ops}"
        if kind == "controller":
            token = str(self.folder / f"{name}.token")
            arguments = ["--listen", f"127.0.0.1:{ops}", "--kube-token-file", token, "--lease-namespace", "default"]
            moves = ["--node-health=report", "--backups", "--backup-scope=none", "--replacement", "--move-plans"]
            return [kind, *self._sources(self.etcd_urls()), *arguments, *moves], ops_url, ops_url, ()
        urls = (
            self.etcd_urls()
            if name == shape.EXTENDERS[0]
            else [f"http://127.0.0.1:{proxy.port}" for proxy in self.proxies]
        )
        listen = ["--listen", f"127.0.0.1:{port}", "--ops-listen", f"127.0.0.1:{ops}", "--telemetry=agents"]
        listen += ["--devices", "--drain-seconds=1", f"--api-listen=127.0.0.1:{people}"]
        listen += ["--self-healing", "--self-healing-namespace=default"]
        files = {"tls-cert": "server.crt", "tls-key": "server.key", "tls-client-ca": "ca.crt"}
        tls = [word for flag, file in files.items() for word in (f"--{flag}", str(self.certs / file))]
        return [kind, *self._sources(urls), *listen, *tls], f"https://127.0.0.1:{port}", ops_url, ()

    def _agent_command(self, node: str) -> tuple[Sequence[str], str, str, Sequence[str]]:
        host, root = self.host_of[node], self.host_root(node)
        etcd = [url.replace("127.0.0.1", self.uplinks.local_address) for url in self.etcd_urls()]
        api = self.api.url.replace("127.0.0.1", self.uplinks.local_address)
        flags = {
            "node-name": node,
            "address": self.net.address(host),
            "owner": f"pod-of-{node}",
            "listen": f"0.0.0.0:{AGENT_PORT}",
            "etcd": ",".join(etcd),
            "kube-api": api,
            "proc-root": str(root / "proc"),
            "sys-root": str(root / "sys"),
        }
        url = f"http://{self.uplinks.address(host)}:{AGENT_PORT}"
        words = [word for flag, value in flags.items() for word in (f"--{flag}", value)]
        return ["agent", *words], url, url, self.net.command(host, ())

    def etcd_urls(self) -> list[str]:
        return [member.client_url for member in self.etcd]

    def _sources(self, urls: Sequence[str]) -> list[str]:
        return ["--etcd", ",".join(urls), "--kube-api", self.api.url]

    # The node's own load, and the API server's objects.

    def set_load(self, node: str, load1: float) -> None:
        """A load average of two CPUs, which the node's agent reads."""
        file = self.host_root(node) / "proc" / "loadavg"
        file.with_suffix(".new").write_text(f"{load1:.2f} 0.45 0.16 4/113 8883\n")
        file.with_suffix(".new").replace(file)

    def _fill_api_server(self) -> None:
        for node in (*shape.CLUSTER_NODES, *shape.MOVE_NODES):
            labels = {"kubernetes.io/hostname": node, **shape.FOREIGN_LABELS}
            amounts = CARDS if node in shape.CARD_NODES else ROOM if node in shape.MOVE_NODES else {}
            if node in shape.CARD_NODES:
                labels["gpu.intel.com/cards"] = ".".join(f"card{number}" for number in range(shape.CARDS_A_NODE))
            meta = {"labels": labels, "uid": node}
            self.api.put(f"/api/v1/nodes/{node}", {"metadata": meta, "status": {"allocatable": amounts}})
        rule = {"metricname": "load1_per_cpu", "operator": "GreaterThan", "target": 1}
        self.api.put(f"{POLICIES}/hot", {"spec": {"strategies": {"deschedule": {"rules": [rule]}}}})

    def _on_write(self, request: RecordedRequest, written: Mapping[str, Any]) -> None:
        """Called on the API server's thread; appending to a list is atomic."""
        if request.path.startswith("/api/v1/nodes/"):
            meta = written["metadata"]
            labels = dict(meta.get("labels") or {})
            self.log.append(NodeWritten(time.monotonic(), request.token, meta["name"], labels))
        elif "/leases" in request.path:
            holder = (written.get("spec") or {}).get("holderIdentity") or ""
            self.log.append(LeaseWritten(time.monotonic(), request.token, holder))
        elif request.path.endswith("/eviction"):
            uid = request.body["deleteOptions"]["preconditions"]["uid"]
            self.evicted_at[uid] = time.monotonic()
            self.log.append(Evicted(self.evicted_at[uid], request.token, uid))


def as_base64(value: str | bytes) -> str:
    """As etcd's gateway takes keys and values."""
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def memory_limit(kind: str) -> int:
    """Bytes that the manifests allow a process of this kind."""
    workload, *_ = yaml.safe_load_all((DAEMONSET / MANIFEST_OF[kind]).read_text())
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    return int(container["resources"]["limits"]["memory"].removesuffix("Mi")) << 20


def new_folder(seed: int) -> Path:
    """A folder for the logs of a run."""
    folder = Path(os.environ.get("TMPDIR", "/tmp"), f"leadsman-torture-{seed}-{os.getpid()}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
