"""`leadsman demo failover`: a node is killed, and its pod comes back within its bound.

The requests are those of the edge scheduler's demo. Agents, etcd, extender and controller are real processes, and the
nodes are network namespaces; the API server is fake, and kubelets, ReplicaSets and kube-scheduler are simulated.
"""

import logging
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.error import URLError

from msgspec import Struct

from leadsman.cli.demo import house, scheduler_request
from leadsman.cli.demo.house import DemoFailed, House, PageAddress, say
from leadsman.kube.names import PLACEHOLDER_NAMESPACE, POD_TEMPLATE_HASH_LABEL
from leadsman.runtime.text_table import align_columns
from leadsman.testbed.api_objects import ObjectPath
from leadsman.testbed.etcd import free_ports
from leadsman.testbed.fake_api_server import ApiServerThread
from leadsman.testbed.virtual_network import VirtualNetwork

MEMORY_GIB = {"edge-1": 8, "edge-2": 8, "edge-3": 8, "cloud": 64}
RTT_MS = {
    ("edge-1", "edge-2"): 10.0,
    ("edge-1", "edge-3"): 12.0,
    ("edge-2", "edge-3"): 15.0,
    ("edge-1", "cloud"): 60.0,
    ("edge-2", "cloud"): 60.0,
    ("edge-3", "cloud"): 60.0,
}


class Request(Struct, frozen=True):
    """One Deployment of one pod. labels: its delay bound. memory_gib: what it requests."""

    name: str
    labels: Mapping[str, str]
    memory_gib: int


REQUESTS = (
    Request("deployment1", {"delay_edge-1": "25"}, 6),
    Request("deployment2", {}, 6),
    Request("deployment3", {"delay_edge-1": "1"}, 6),
    Request("deployment4", {"delay_deployment3": "1"}, 1),
)
"""Its req1 to req4. The third fits on edge-1 alone, which the first has taken: that one is moved."""

SURVIVOR, SURVIVOR_BOUND_MS = "deployment1", 25.0
READY_WITHIN_SECONDS, BACK_WITHIN_SECONDS = 60.0, 60.0
PROBING = {"probe-interval-seconds": "0.2", "window-seconds": "6"}
"""Faster than in a cluster, as are the Leases."""


def run(page: PageAddress) -> None:
    """DemoFailed, or what testbed raises when this machine cannot do it."""
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    if missing := house.why_only_loopback(["failover"]):
        raise DemoFailed(f"a node is killed by cutting its network, and this machine refuses namespaces: {missing}")
    with ExitStack() as stack:
        net, uplinks = stack.enter_context(house.connected_hosts(RTT_MS))
        api = stack.enter_context(ApiServerThread())
        demo = FailoverDemo(net, api, stack.enter_context(House(page, ("127.0.0.1", uplinks.local_address))))
        demo.start()
        demo.place()
        demo.kill()
        demo.stay()


class FailoverDemo:
    """The demo's parts, each with its screen."""

    def __init__(self, net: VirtualNetwork, api: ApiServerThread, demo: House) -> None:
        self._net, self._api, self._house = net, api, demo
        self._plane = SimulatedControlPlane(api, MEMORY_GIB, "cloud")
        self._extender, self._controller = "", f"http://127.0.0.1:{free_ports(1)[0]}"

    def start(self) -> None:
        """Starts all processes, and waits until every node is judged healthy."""
        for node in MEMORY_GIB:
            self._house.start_agent_on(self._net, node, PROBING)
        cluster = ["--kube-api", self._api.url]
        self._extender = self._house.start_extender("--self-healing", *cluster)
        listen = ["--listen", self._controller.removeprefix("http://"), "--agent-call-timeout-seconds", "1"]
        healing = ["--node-health=report", "--backups", "--failover", "--replacement", "--replacement-hold-seconds=2"]
        self._house.start("controller", ["controller", *listen, *healing, "--etcd", self._house.etcd_url, *cluster])
        say(f"started    an etcd, {len(MEMORY_GIB)} agents in network namespaces, an extender, a controller")
        self._until(self._all_healthy, "every node healthy", READY_WITHIN_SECONDS)
        self._plane.schedule_with(self._extender)

    def place(self) -> None:
        """Submits the requests one after the other, and shows where they went and what covers them."""
        print("SIMULATED: the API server, the kubelets' Leases, the ReplicaSets, and kube-scheduler.")
        print("Real: agents, etcd, extender, controller, the network between the nodes, and who is found dead.\n")
        placed_on: dict[str, str] = {}
        for request in REQUESTS:
            self._plane.submit(request)
            self._until(partial(self._plane.node_of, request.name), f"{request.name} bound", READY_WITHIN_SECONDS)
            placed_on[request.name] = self._plane.node_of(request.name)
        self._until(lambda: self._coverage(SURVIVOR).get("coverage") == "covered", "a backup", READY_WITHIN_SECONDS)
        rows, without = [("REQUEST", "BOUND", "MEMORY", "NODE", "BACKUP")], list[str]()
        for request in REQUESTS:
            bound = ", ".join(f"{name} {within} ms" for name, within in request.labels.items()) or "-"
            coverage = self._coverage(request.name)
            if coverage.get("reason") and not coverage.get("backup"):
                without.append(f"{request.name} has no backup: {coverage['reason']}")
            node, first = self._plane.node_of(request.name), placed_on[request.name]
            moved = node if node == first else f"{first}, moved to {node}"
            rows.append((request.name, bound, f"{request.memory_gib} Gi", moved, coverage.get("backup") or "-"))
        print(*align_columns(rows), *(textwrap.fill(each, 100) for each in without), sep="\n", flush=True)
        if placed_on[SURVIVOR] == self._plane.node_of(SURVIVOR):
            raise DemoFailed(f"{SURVIVOR} is still on {placed_on[SURVIVOR]}: no room was made for another request")

    def kill(self) -> None:
        """Kills the node of the covered request, and shows what happened when."""
        node, backup = self._plane.node_of(SURVIVOR), self._coverage(SURVIVOR)["backup"]
        print(f"\n{node} loses its power: its network is cut, its agent is killed, its Lease is no longer renewed.\n")
        cut_at = time.time()
        self._plane.dead.add(node)
        for other in MEMORY_GIB:
            if other != node:
                self._net.cut(node, other)
        self._house.kill(f"agent-{node}")
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

    def stay(self) -> None:
        """Keeps the cluster for a viewer on a terminal."""
        self._house.stay("nodes", "state", "explain", step=self._plane.step)

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
            self._plane.step()
            return condition()

        self._house.wait_until(stepped, what, seconds, log="controller")


GIB = 1 << 30
LEASE_SECONDS = 8
RENEW_SECONDS = 2.0


class SimulatedControlPlane:
    """Call `step` about ten times a second.

    dead: nodes whose kubelet does not renew its Lease any more.
    """

    def __init__(self, api: ApiServerThread, memory_gib: Mapping[str, int], cloud: str) -> None:
        self.dead: set[str] = set()
        self._api, self._memory_gib, self._extender = api, memory_gib, ""
        self._requests: list[Request] = []
        self._renewed_at, self._made = float("-inf"), 0
        for node, size in memory_gib.items():
            role = "cloud" if node == cloud else "edge"
            capacity = {"cpu": "8", "memory": f"{size}Gi", "pods": "110"}
            status = {
                "capacity": capacity,
                "allocatable": capacity,
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            labels = {"kubernetes.io/role": role, "kubernetes.io/hostname": node}
            api.put(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}, "spec": {}, "status": status})
        for namespace in ("default", "leadsman", PLACEHOLDER_NAMESPACE):
            api.put(f"/api/v1/namespaces/{namespace}", {})
        self._renew()

    def schedule_with(self, extender: str) -> None:
        """From now on pods are placed."""
        self._extender = extender

    def submit(self, request: Request) -> None:
        """Creates the Deployment's ReplicaSet, whose pod is made again whenever it is gone."""
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": request.name, "uid": "", "controller": True}
        metadata = {"uid": request.name, "ownerReferences": [owner]}
        self._api.put(f"/apis/apps/v1/namespaces/default/replicasets/{request.name}-1", {"metadata": metadata})
        self._requests.append(request)

    def pods(self) -> dict[str, Any]:
        """Name → object, placeholders too."""
        found = self._api.call(lambda server: server.objects.all(ObjectPath("/api/v1/pods")))
        return {pod["metadata"]["name"]: pod for pod in found}

    def node_of(self, request: str) -> str:
        """Where the request's pod is bound; "" when it is not."""
        return next((pod["spec"].get("nodeName", "") for pod in self.pods().values() if _owner(pod) == request), "")

    def step(self) -> None:
        self._renew()
        owners = {_owner(pod) for pod in self.pods().values()}
        for request in self._requests:
            if request.name not in owners:
                self._make(request)
        for pod in self.pods().values():
            if not pod["spec"].get("nodeName") and self._extender:
                self._place(pod)

    def _renew(self) -> None:
        if time.monotonic() - self._renewed_at < RENEW_SECONDS:
            return
        self._renewed_at = time.monotonic()
        for node in self._memory_gib.keys() - self.dead:
            spec = {
                "holderIdentity": node,
                "leaseDurationSeconds": LEASE_SECONDS,
                "renewTime": f"{datetime.now(UTC):%FT%T.%fZ}",
            }
            self._api.put(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}", {"spec": spec})

    def _make(self, request: Request) -> None:
        self._made += 1
        name = f"{request.name}-1-{self._made}"
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": f"{request.name}-1",
            "uid": request.name,
            "controller": True,
        }
        metadata = {
            "labels": {"app": request.name, POD_TEMPLATE_HASH_LABEL: "1", **request.labels},
            "ownerReferences": [owner],
        }
        resources = {"requests": {"memory": f"{request.memory_gib}Gi"}}
        spec = {"containers": [{"name": "main", "image": "none", "resources": resources}]}
        self._api.put(
            f"/api/v1/namespaces/default/pods/{name}",
            {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}},
        )

    def _place(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        nodes = list(self._with_room(pod))
        body = scheduler_request.captured_args(nodes, {})
        body["Pod"] = pod
        scores = scheduler_request.filter_and_prioritize(self._extender, body) if nodes else {}
        if scores:
            ready = {"type": "Ready", "status": "True"}
            node = min(scores, key=lambda one: (-scores[one], one))
            bound = {
                **pod,
                "spec": {**pod["spec"], "nodeName": node},
                "status": {"phase": "Running", "conditions": [ready]},
            }
            self._api.put(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", bound)

    def _with_room(self, pod: dict[str, Any]) -> Iterator[str]:
        """The nodes that kube-scheduler would ask the extender about."""
        pods = [each for each in self.pods().values() if each["spec"].get("nodeName")]
        only = _required_node(pod)
        for node in self._api.call(lambda server: server.objects.all(ObjectPath("/api/v1/nodes"))):
            name = node["metadata"]["name"]
            taken = sum(_memory(each) for each in pods if each["spec"]["nodeName"] == name)
            tainted = node["spec"].get("taints")
            if only in ("", name) and not tainted and taken + _memory(pod) <= self._memory_gib[name] * GIB:
                yield name


def _owner(pod: dict[str, Any]) -> str:
    """The request that the pod is of; "" for a placeholder."""
    return str(next((owner["uid"] for owner in pod["metadata"].get("ownerReferences", ())), ""))


def _required_node(pod: dict[str, Any]) -> str:
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    return str(terms[0]["matchFields"][0]["values"][0]) if terms else ""


def _memory(pod: dict[str, Any]) -> int:
    amounts = (container["resources"]["requests"]["memory"] for container in pod["spec"]["containers"])
    return sum(int(text.removesuffix("Gi")) * GIB if text.endswith("Gi") else int(text) for text in amounts)
