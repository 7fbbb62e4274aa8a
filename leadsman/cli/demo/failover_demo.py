"""`leadsman demo failover`: a node is killed, and its pod comes back within its bound.

The requests are those of the edge scheduler's demo. Agents, etcd, extender and controller are real processes, and the
nodes are network namespaces; the API server is fake, and kubelets, ReplicaSets and kube-scheduler are simulated.
"""

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any
from urllib.error import URLError

from leadsman.cli.demo import demo_network, scheduler_request
from leadsman.cli.demo.child_processes import ChildProcesses, DemoFailed, say
from leadsman.cli.demo.demo_network import AGENT_PORT, reachable_etcd
from leadsman.cli.demo.simulated_control_plane import LEASE_SECONDS, Request, SimulatedControlPlane
from leadsman.runtime.text_table import align_columns
from leadsman.testbed.etcd import Etcd, free_ports
from leadsman.testbed.fake_api_server import ApiServerThread
from leadsman.testbed.virtual_network import Uplinks, VirtualNetwork

MEMORY_GIB = {"edge-1": 8, "edge-2": 8, "edge-3": 8, "cloud": 64}
RTT_MS = {
    ("edge-1", "edge-2"): 10.0,
    ("edge-1", "edge-3"): 12.0,
    ("edge-2", "edge-3"): 15.0,
    ("edge-1", "cloud"): 60.0,
    ("edge-2", "cloud"): 60.0,
    ("edge-3", "cloud"): 60.0,
}
REQUESTS = (
    Request("deployment1", {"delay_edge-1": "25"}, 6),
    Request("deployment2", {}, 6),
    Request("deployment3", {"delay_edge-1": "1"}, 6),
    Request("deployment4", {"delay_deployment3": "1"}, 1),
)
"""Its req1 to req4. The third fits on edge-1 alone, which the first has taken: that one is moved."""

SURVIVOR, SURVIVOR_BOUND_MS = "deployment1", 25.0
READY_WITHIN_SECONDS, BACK_WITHIN_SECONDS = 60.0, 60.0
AGENT_INTERVALS_SECONDS = {"push-interval": 1, "call-timeout": 1, "probe-interval": 0.2, "window": 6}
"""Shorter than in a cluster, as are the Leases."""


def run() -> None:
    """DemoFailed, or what testbed raises when this machine cannot do it."""
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    if missing := demo_network.why_only_loopback(["failover"]):
        raise DemoFailed(f"a node is killed by cutting its network, and this machine refuses namespaces: {missing}")
    with ExitStack() as stack:
        net = stack.enter_context(VirtualNetwork(list(MEMORY_GIB), RTT_MS))
        uplinks = stack.enter_context(Uplinks(net))
        api = stack.enter_context(ApiServerThread())
        processes = stack.enter_context(ChildProcesses())
        etcd = stack.enter_context(reachable_etcd(processes.folder / "etcd", ("127.0.0.1", uplinks.local_address)))
        demo = FailoverDemo(net, api, processes)
        demo.start(etcd, uplinks)
        demo.place()
        demo.kill()


class FailoverDemo:
    """The demo's parts, each with its screen."""

    def __init__(self, net: VirtualNetwork, api: ApiServerThread, processes: ChildProcesses) -> None:
        self._net, self._processes = net, processes
        self._plane = SimulatedControlPlane(api, MEMORY_GIB, "cloud")
        self._api = api
        self._extender, self._controller = "", f"http://127.0.0.1:{free_ports(1)[0]}"

    def start(self, etcd: Etcd, uplinks: Uplinks) -> None:
        """Starts all processes, and waits until every node is judged healthy."""
        for node in MEMORY_GIB:
            flags = {
                "address": self._net.address(node),
                "listen": f"0.0.0.0:{AGENT_PORT}",
                "etcd": f"http://{uplinks.local_address}:{etcd.port}",
            }
            self._processes.start_agent(node, flags, AGENT_INTERVALS_SECONDS, self._net.command(node, ()))
        cluster = ["--kube-api", self._api.url]
        self._extender, *_ = self._processes.start_extender(etcd.client_url, "--self-healing", *cluster)
        listen = ["--listen", self._controller.removeprefix("http://"), "--agent-call-timeout-seconds", "1"]
        healing = [
            "--node-health",
            "report",
            "--backups",
            "--failover",
            "--replacement",
            "--replacement-hold-seconds=2",
        ]
        self._processes.start("controller", ["controller", *listen, *healing, "--etcd", etcd.client_url, *cluster])
        say(f"started    etcd, {len(MEMORY_GIB)} agents in network namespaces, one extender, one controller")
        self._until(self._all_healthy, "every node healthy", READY_WITHIN_SECONDS)
        self._plane.schedule_with(self._extender)

    def place(self) -> None:
        """Submits the requests one after the other, and shows where they went and what covers them."""
        print(
            "SIMULATED: the API server, the kubelets' Leases, the ReplicaSets that make pods again, and kube-scheduler."
        )
        print("Real: agents, etcd, extender, controller, the network between the nodes, and who is found dead.\n")
        placed_on: dict[str, str] = {}
        for request in REQUESTS:
            self._plane.submit(request)
            self._until(partial(self._plane.node_of, request.name), f"{request.name} bound", READY_WITHIN_SECONDS)
            placed_on[request.name] = self._plane.node_of(request.name)
        self._until(lambda: self._coverage(SURVIVOR).get("coverage") == "covered", "a backup", READY_WITHIN_SECONDS)
        rows = [("REQUEST", "BOUND", "MEMORY", "NODE", "BACKUP")]
        for request in REQUESTS:
            bound = ", ".join(f"{name} {within} ms" for name, within in request.labels.items()) or "-"
            coverage = self._coverage(request.name)
            backup = coverage.get("backup") or coverage.get("reason") or "-"
            node, first = self._plane.node_of(request.name), placed_on[request.name]
            moved = node if node == first else f"{first}, moved to {node}"
            rows.append((request.name, bound, f"{request.memory_gib} Gi", moved, backup))
        print("\n".join(align_columns(rows)))
        if placed_on[SURVIVOR] == self._plane.node_of(SURVIVOR):
            raise DemoFailed(f"{SURVIVOR} is still on {placed_on[SURVIVOR]}: no room was made for another request")

    def kill(self) -> None:
        """Kills the node of the covered request, and shows what happened when."""
        node, backup = self._plane.node_of(SURVIVOR), self._coverage(SURVIVOR)["backup"]
        print(
            f"\n{node} loses its power: its network is cut, its agent is killed, its Lease is not renewed any more.\n"
        )
        cut_at = time.time()
        self._plane.dead.add(node)
        for other in MEMORY_GIB:
            if other != node:
                self._net.cut(node, other)
        self._processes.kill(f"agent-{node}")
        self._until(lambda: self._plane.node_of(SURVIVOR) not in ("", node), "the pod is back", BACK_WITHIN_SECONDS)
        self._until(lambda: self._timeline(node).get("bound"), "the timeline", BACK_WITHIN_SECONDS)
        rows = [("SECONDS", "WHAT")]
        rows += [(f"{at - cut_at:7.1f}", what) for what, at in self._timeline(node).items() if at]
        print("\n".join(align_columns(rows)))
        landed = self._plane.node_of(SURVIVOR)
        rtt_ms = RTT_MS.get(("edge-1", landed), 0.0)
        if rtt_ms > SURVIVOR_BOUND_MS:
            raise DemoFailed(f"{SURVIVOR} is on {landed}, {rtt_ms:g} ms from edge-1")
        print(f"\n{SURVIVOR} is back on {landed} (its backup: {backup}), {rtt_ms:g} ms from edge-1, bound 25 ms.")
        print(f"Faster than installed: agents report every 1 s, not 5; Leases last {LEASE_SECONDS} s, not 40.")

    def _timeline(self, node: str) -> dict[str, float | None]:
        """What happened to the dead node when, as the controller publishes it; Unix seconds."""
        dead = self._plan().get("self_healing", {}).get("recovery", {}).get("dead", {}).get(node, {})
        pod: dict[str, Any] = next(iter(dead.get("pods", {}).values()), {})
        return {
            "first lost probe": dead.get("first_lost_at"),
            "suspect": dead.get("suspect_at"),
            "dead": dead.get("dead_at"),
            "tainted": dead.get("tainted_at"),
            "pod deleted": pod.get("deleted_at"),
            "bound": pod.get("bound_at"),
        }

    def _coverage(self, request: str) -> dict[str, Any]:
        pods = self._plan().get("self_healing", {}).get("pods", {})
        return next((dict(each) for name, each in pods.items() if name.startswith(f"default/{request}-")), {})

    def _all_healthy(self) -> bool:
        return bool(self._plan().get("node_health", {}).get("reasons") == {"NodeReachable": len(MEMORY_GIB)})

    def _plan(self) -> dict[str, Any]:
        with suppress(URLError):
            return dict(scheduler_request.get_json(f"{self._controller}/plan"))
        return {}

    def _until(self, condition: Callable[[], object], what: str, seconds: float) -> None:
        """Steps the simulated control plane until then. DemoFailed says what did not come."""

        def stepped() -> object:
            self._plane.step()
            return condition()

        self._processes.wait_until(stepped, what, seconds, log="controller")
