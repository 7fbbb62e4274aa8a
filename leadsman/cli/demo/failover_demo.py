"""`leadsman demo failover`: a node is killed, and its pod comes back within its bound.

The requests are those of the edge scheduler's demo. Agents, etcd, extender and controller are real processes, and the
nodes are network namespaces; the API server is fake, and kubelets, ReplicaSets and kube-scheduler are simulated.
"""

import logging
import textwrap
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.error import URLError

from leadsman.cli.demo import scheduler_request
from leadsman.cli.demo.house import DemoFailed, House, PageAddress, say, why_only_loopback
from leadsman.cli.demo.simulated_cluster import LEASE_SECONDS, SimulatedCluster
from leadsman.runtime.text_table import align_columns
from leadsman.testbed.etcd import free_ports
from leadsman.testbed.fake_api_server import ApiServerThread, FakeApiServer

MEMORY_GIB = {"edge-1": 8, "edge-2": 8, "edge-3": 8, "cloud": 64}
RTT_MS = {
    ("edge-1", "edge-2"): 10.0,
    ("edge-1", "edge-3"): 12.0,
    ("edge-2", "edge-3"): 15.0,
    ("edge-1", "cloud"): 60.0,
    ("edge-2", "cloud"): 60.0,
    ("edge-3", "cloud"): 60.0,
}


REQUESTS: Mapping[str, tuple[Mapping[str, str], int]] = {
    "deployment1": ({"delay_edge-1": "25"}, 6),
    "deployment2": ({}, 6),
    "deployment3": ({"delay_edge-1": "1"}, 6),
    "deployment4": ({"delay_deployment3": "1"}, 1),
}
"""Its req1 to req4: Deployment → its pod's delay bounds, and the memory that it requests in GiB. The third fits on
edge-1 alone, which the first has taken: that one is moved."""

SURVIVOR, SURVIVOR_BOUND_MS = "deployment1", 25.0
READY_WITHIN_SECONDS, BACK_WITHIN_SECONDS = 60.0, 60.0


def run(page: PageAddress) -> None:
    """Runs the demo. DemoFailed, or what testbed raises when this machine cannot do it."""
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    if missing := why_only_loopback("failover"):
        raise DemoFailed(f"a node is killed by cutting its network, and this machine refuses namespaces: {missing}")
    with ApiServerThread(FakeApiServer()) as api, House(page, list(MEMORY_GIB), RTT_MS) as house:
        demo = FailoverDemo(api, house)
        demo.start(api.url)
        demo.place()
        demo.kill()
        demo.stay()


class FailoverDemo:
    """Runs the demo's parts, each with its screen."""

    def __init__(self, api: ApiServerThread[FakeApiServer], demo: House) -> None:
        self._house = demo
        self._cluster = SimulatedCluster(api, MEMORY_GIB, "cloud")
        self._controller = f"http://127.0.0.1:{free_ports(1)[0]}"

    def start(self, kube_api: str) -> None:
        """Starts all processes, and waits until every node is judged healthy."""
        # Faster than in a cluster, as are the Leases.
        self._house.start_agents("--probe-interval-seconds=0.2", "--window-seconds=6")
        cluster = ["--kube-api", kube_api]
        extender = self._house.start_extender("--self-healing", *cluster)
        listen = ["--listen", self._controller.removeprefix("http://"), "--agent-call-timeout-seconds", "1"]
        healing = ["--node-health=report", "--backups", "--failover", "--replacement", "--replacement-hold-seconds=2"]
        self._house.start("controller", ["controller", *listen, *healing, "--etcd", self._house.etcd_url, *cluster])
        say(f"started    an etcd, {len(MEMORY_GIB)} agents in network namespaces, an extender, a controller")
        self._until(self._all_healthy, "every node healthy", READY_WITHIN_SECONDS)
        self._cluster.extender = extender

    def place(self) -> None:
        """Submits the requests one after the other, and shows where they went and what covers them."""
        print("SIMULATED: the API server, the kubelets' Leases, the ReplicaSets, and kube-scheduler.")
        print("Real: agents, etcd, extender, controller, the network between the nodes, and who is found dead.\n")
        placed_on: dict[str, str] = {}
        for name, (labels, memory_gib) in REQUESTS.items():
            self._cluster.deploy(name, labels, memory_gib)
            self._until(partial(self._cluster.node_of, name), f"{name} bound", READY_WITHIN_SECONDS)
            placed_on[name] = self._cluster.node_of(name)
        self._until(lambda: self._coverage(SURVIVOR).get("coverage") == "covered", "a backup", READY_WITHIN_SECONDS)
        rows, without = [("REQUEST", "BOUND", "MEMORY", "NODE", "BACKUP")], list[str]()
        for name, (labels, memory_gib) in REQUESTS.items():
            bound = ", ".join(f"{label} {within} ms" for label, within in labels.items()) or "-"
            coverage = self._coverage(name)
            if coverage.get("reason") and not coverage.get("backup"):
                without.append(f"{name} has no backup: {coverage['reason']}")
            node, first = self._cluster.node_of(name), placed_on[name]
            moved = node if node == first else f"{first}, moved to {node}"
            rows.append((name, bound, f"{memory_gib} Gi", moved, coverage.get("backup") or "-"))
        print(*align_columns(rows), *(textwrap.fill(each, 100) for each in without), sep="\n", flush=True)
        if placed_on[SURVIVOR] == self._cluster.node_of(SURVIVOR):
            raise DemoFailed(f"{SURVIVOR} is still on {placed_on[SURVIVOR]}: no room was made for another request")

    def kill(self) -> None:
        """Kills the node of the covered request, and shows what happened when."""
        node, backup = self._cluster.node_of(SURVIVOR), self._coverage(SURVIVOR)["backup"]
        print(f"\n{node} loses its power: its network is cut, its agent is killed, its Lease is no longer renewed.\n")
        cut_at = time.time()
        self._cluster.dead.add(node)
        assert self._house.net
        for other in MEMORY_GIB.keys() - {node}:
            self._house.net.cut(node, other)
        self._house.kill(f"agent-{node}")
        self._until(lambda: self._cluster.node_of(SURVIVOR) not in ("", node), "the pod is back", BACK_WITHIN_SECONDS)
        self._until(lambda: self._timeline(node).get("bound"), "the timeline", BACK_WITHIN_SECONDS)
        rows = [("SECONDS", "WHAT")]
        rows += [(f"{at - cut_at:7.1f}", what) for what, at in self._timeline(node).items() if at]
        print("\n".join(align_columns(rows)))
        landed = self._cluster.node_of(SURVIVOR)
        rtt_ms = RTT_MS.get(("edge-1", landed), 0.0)
        if rtt_ms > SURVIVOR_BOUND_MS:
            raise DemoFailed(f"{SURVIVOR} is on {landed}, {rtt_ms:g} ms from edge-1")
        print(f"\n{SURVIVOR} is back on {landed} (its backup: {backup}), {rtt_ms:g} ms from edge-1, bound 25 ms.")
        print(f"Faster than installed: agents report every 1 s, not 5; Leases last {LEASE_SECONDS} s, not 40.")

    def stay(self) -> None:
        """Keeps the cluster for a viewer on a terminal."""
        self._house.stay("nodes", "state", "explain", step=self._cluster.step)

    def _timeline(self, node: str) -> dict[str, float | None]:
        """Returns what happened to the dead node when, as the controller publishes it; Unix seconds."""
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
            self._cluster.step()
            return condition()

        self._house.wait_until(stepped, what, seconds, log="controller")
