"""Nine real agents in network namespaces over three zones, a real etcd, a real controller that judges the nodes.

A process in each node's namespace renews the node's Lease. The API server is a subclass's: `ScriptedCluster`,
`ApiServerCluster`.
"""

import contextlib
import json
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.error import URLError
from urllib.request import urlopen

from leadsman.state.keys import NODES_PREFIX
from leadsman.testbed.etcd import Etcd, free_ports
from leadsman.testbed.virtual_network import Uplinks, VirtualNetwork
from tests.testbed.wall_clock import WallClocks
from tests.whole.conftest import records

ZONES = {zone: tuple(f"{zone}-{number}" for number in range(3)) for zone in ("a", "b", "c")}
NODES = tuple(node for nodes in ZONES.values() for node in nodes)
PORT = 9102
LEASE_RENEWER = Path(__file__).with_name("lease_renewer.py")


class Rhythm(NamedTuple):
    """Of agents and kubelets, in seconds. A kubelet renews after a quarter of the Lease's duration."""

    push: float
    call: float
    probe: float
    window: float
    lease: int


AS_INSTALLED = Rhythm(5.0, 3.0, 1.0, 30.0, 40)
QUICK = Rhythm(2.0, 1.0, 0.3, 6.0, 8)


class AgentCluster(ABC):
    """Everything, from entry to exit. Methods do harm to it; `heal` undoes what they did to the network.

    api_server: what stands for the API server, in words. acts: whether its controllers fail dead nodes over.
    controllers: by URL. controller_flags, api_flags: of controllers that are started from now on.
    """

    api_server: str
    acts: bool

    def __init__(self, folder: Path, rhythm: Rhythm) -> None:
        self.rhythm, self._folder, self._stack = rhythm, folder, contextlib.ExitStack()
        self._agents: dict[str, subprocess.Popen[bytes]] = {}
        self._kubelets: dict[str, subprocess.Popen[bytes]] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self.controllers: dict[str, subprocess.Popen[bytes]] = {}
        self.controller_flags: tuple[str, ...] = ()
        self.api_flags: tuple[str, ...] = ()
        self.clocks = WallClocks(folder)

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.net = stack.enter_context(VirtualNetwork(NODES))
            self._uplinks = stack.enter_context(Uplinks(self.net))
            self.etcd = Etcd(self._folder / "etcd")
            self.etcd.flags = (
                f"--listen-client-urls={self.etcd.client_url},http://{self._uplinks.local_address}:{self.etcd.port}",
            )
            stack.callback(self.etcd.stop)
            self.etcd.start()
            self.heal()
            self._start_kubernetes(stack)
            stack.callback(self._kill_all)
            for node in NODES:
                self.start_kubelet(node)
                self.start_agent(node)
            self.start_controller()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    # What it says.

    def health(self) -> dict[str, Any]:
        """The section of /plan; {} when the controller does not answer."""
        return dict(self._get("/plan").get("node_health", {}))

    def troubled(self) -> dict[str, dict[str, Any]]:
        """The nodes that are not healthy, as /plan shows them; {} also when the controller does not answer."""
        return dict(self.health().get("nodes", {}))

    def deaths(self) -> float:
        """Verdicts `dead` since the start."""
        return self._metric('leadsman_node_verdict_changes_total{verdict="dead"} ')

    def detection_seconds(self) -> float:
        """From the first lost probe to the verdict, of all deaths together."""
        return self._metric("leadsman_node_death_detection_seconds_sum ")

    def tainted(self) -> float:
        """How often a node was tainted: the first step of a failover."""
        return self._metric('leadsman_recovery_actions_total{action="TaintNode",result="done"} ')

    def condition(self, node: str) -> str:
        """The status of the node's condition LeadsmanUnreachable; "" when it has none."""
        conditions = [each for each in self._conditions(node) if each["type"] == "LeadsmanUnreachable"]
        return str(conditions[0]["status"]) if conditions else ""

    def is_settled(self) -> bool:
        """Whether every node is healthy, and every agent says that it hears all others."""
        if self.health().get("reasons") != {"NodeReachable": len(NODES)}:
            return False
        reports = [one for key, one in records(self.etcd, NODES_PREFIX).items() if key.endswith("/reachability")]
        return sum(report.get("answering", 0) == len(NODES) - 1 for report in reports) == len(NODES)

    # What is done to it.

    def start_agent(self, node: str) -> None:
        rhythm, zone = self.rhythm, node.partition("-")[0]
        command = [sys.executable, "-m", "leadsman.cli.main", "agent", "--node-name", node, "--zone", zone]
        command += ["--address", self.net.address(node), "--listen", f"0.0.0.0:{PORT}"]
        command += ["--etcd", f"http://{self._uplinks.local_address}:{self.etcd.port}"]
        command += ["--push-interval-seconds", str(rhythm.push), "--call-timeout-seconds", str(rhythm.call)]
        command += ["--probe-interval-seconds", str(rhythm.probe), "--window-seconds", str(rhythm.window)]
        with (self._folder / f"{node}.log").open("ab") as log:
            self._agents[node] = subprocess.Popen(
                self.net.command(node, [*self._clock_shim(), *command]), stdout=log, stderr=log
            )

    def signal_agent(self, node: str, number: int) -> None:
        """To the agent itself: `ip netns exec` and `env` become it."""
        self._agents[node].send_signal(number)

    def lose(self, ratio: float) -> None:
        """Between all nodes."""
        for one, other in _pairs(NODES, NODES):
            self.net.set_delay(one, other, 1.0, loss_ratio=ratio)

    def cut(self, ones: Iterable[str], others: Iterable[str]) -> None:
        """No probe passes between the two groups."""
        for one, other in _pairs(ones, others):
            self.net.cut(one, other)

    def unplug(self, node: str) -> None:
        """The node reaches neither etcd nor the API server."""
        self._in(node, "ip", "link", "set", "uplink", "down")

    def plug_in(self, node: str) -> None:
        self._in(node, "ip", "link", "set", "uplink", "up")

    def kill(self, node: str) -> None:
        """As a node without power: nothing answers, nothing is renewed, and nobody says goodbye."""
        self.unplug(node)
        self.cut([node], [other for other in NODES if other != node])
        self.stop_kubelet(node)
        self._agents[node].kill()
        self._agents[node].wait()

    def revive(self, node: str) -> None:
        self.plug_in(node)
        self.start_kubelet(node)
        self.start_agent(node)

    def drop_icmp(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._in(node, "nft", "add table inet t; add chain inet t in { type filter hook input priority 0; };")
            self._in(node, "nft", "add rule inet t in meta l4proto { icmp, ipv6-icmp } drop")

    def pass_icmp(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._in(node, "nft", "delete table inet t")

    def set_clocks(self, offset_seconds: int) -> None:
        """Of all agents, and of what kubelets write."""
        if not self.clocks.missing:
            self.clocks.step("node", offset_seconds)

    def start_kubelet(self, node: str, late_seconds: float = 0.0) -> None:
        """Its Lease is renewed from now on, each time so much later than a kubelet would."""
        self.stop_kubelet(node)
        timing = ["--duration-seconds", str(self.rhythm.lease), "--late-seconds", str(late_seconds)]
        command = [*self._clock_shim(), sys.executable, str(LEASE_RENEWER), node, *self._node_access(node), *timing]
        self._kubelets[node] = subprocess.Popen(self.net.command(node, command))

    def stop_kubelet(self, node: str) -> None:
        if process := self._kubelets.pop(node, None):
            process.kill()
            process.wait()

    @abstractmethod
    def silence_api(self) -> None:
        """The API server takes connections and answers nobody."""

    @abstractmethod
    def heal_api(self) -> None: ...

    def heal(self) -> None:
        """The network between the nodes is whole again."""
        for one, other in _pairs(NODES, NODES):
            self.net.set_delay(one, other, self.rtt_ms(one, other))

    def rtt_ms(self, one: str, other: str) -> float:
        """Between two nodes while nothing is wrong."""
        return 1.0

    def wait_until(self, condition: Callable[[], object], what: str, seconds: float) -> float:
        """Seconds that it took. AssertionError names what did not come."""
        began = time.monotonic()
        while not condition():
            assert time.monotonic() - began < seconds, f"not within {seconds:g} s: {what}; {self.troubled()}"
            time.sleep(0.1)
        return time.monotonic() - began

    def start_controller(self) -> str:
        """Its URL, which is the one that is asked from now on."""
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        flags = ["--listen", f"127.0.0.1:{port}", "--node-health", "report"]
        flags += ["--agent-call-timeout-seconds", str(self.rhythm.call)]
        self.controllers[self.url] = self.start_process("controller", [*self.api_flags, *flags, *self.controller_flags])
        return self.url

    def start_process(self, part: str, flags: Sequence[str]) -> subprocess.Popen[bytes]:
        """`leadsman PART` with the cluster's etcd."""
        command = [sys.executable, "-m", "leadsman.cli.main", part, "--etcd", self.etcd.client_url]
        with (self._folder / f"{part}-{len(self._processes)}.log").open("ab") as log:
            process = subprocess.Popen([*command, *flags], stdout=log, stderr=log)
        self._processes.append(process)
        return process

    @abstractmethod
    def _start_kubernetes(self, stack: contextlib.ExitStack) -> None:
        """Starts the API server with its nodes. Sets api_flags."""

    @abstractmethod
    def _node_access(self, node: str) -> list[str]:
        """Flags of what renews the node's Lease: where the API server is, and who the node is."""

    @abstractmethod
    def _conditions(self, node: str) -> list[dict[str, Any]]:
        """Those of the node's status."""

    def _clock_shim(self) -> tuple[str, ...]:
        """What a command is prefixed with, so that `set_clocks` moves its clock."""
        return ("env", *(f"{name}={value}" for name, value in self.clocks.environ("node").items()))

    def _kill_all(self) -> None:
        for process in (*self._agents.values(), *self._kubelets.values(), *self._processes):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()

    def _get(self, path: str) -> dict[str, Any]:
        try:
            with urlopen(self.url + path, timeout=5) as answer:
                return dict(json.load(answer))
        except (URLError, OSError):
            return {}

    def _metric(self, start: str, url: str = "") -> float:
        with urlopen(f"{url or self.url}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return next((float(line.split()[-1]) for line in lines if line.startswith(start)), 0.0)

    def _in(self, node: str, *command: str) -> None:
        subprocess.run(self.net.command(node, command), check=True, capture_output=True)


def _pairs(ones: Iterable[str], others: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each pair once."""
    found = {tuple(sorted((one, other))) for one in ones for other in others if one != other}
    yield from ((one, other) for one, other in sorted(found))
