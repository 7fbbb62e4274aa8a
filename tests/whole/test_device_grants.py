"""A real kube-scheduler, two extenders and one etcd: what pods were promised before they are seen bound.

kube-scheduler asks the two in turn, as through a Service. Nodes have no kubelet, and the test writes what an agent
would report of their links. Each case is also run without Leadsman: kube-scheduler counts functions and bytes only.
"""

import asyncio
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
import yaml

from leadsman.state import codec, keys, metric_names
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.key_values import Put
from leadsman.state.records import Hardware, Heartbeat, Identity
from leadsman.testbed.etcd import Etcd
from leadsman.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing
from leadsman.testbed.kube_scheduler import KubeScheduler
from tests.leadsman_process import LeadsmanProcess

if TYPE_CHECKING:
    from tests.whole.conftest import Start, Until

pytestmark = pytest.mark.slow

MANIFESTS = Path(__file__).parents[2] / "daemonset"
ACCOUNT = "system:serviceaccount:leadsman:leadsman-extender"
CONTROLLER = "system:serviceaccount:leadsman:leadsman-controller"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
IN_LEADSMAN = f"{RBAC}/namespaces/leadsman"
PATHS = {
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "Role": f"{IN_LEADSMAN}/roles",
    "RoleBinding": f"{IN_LEADSMAN}/rolebindings",
}
PODS = "/api/v1/namespaces/default/pods"
VF, I915, MEMORY = "openshift.io/sriov", "gpu.intel.com/i915", "gpu.intel.com/memory.max"
GB, SECONDS = 10**9, 60.0
ROUNDS = int(os.environ.get("LEADSMAN_DEVICE_ROUNDS", "3"))

Object = dict[str, Any]


class DeviceCluster:
    """An API server with nodes that have devices, and what is asked of it."""

    def __init__(self, api: KubeApiServer) -> None:
        self.api = api

    def grant_rights(self) -> None:
        """What the components `devices` and `controller` and the base give the two, and no more."""
        self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "leadsman"}})
        for file in ("components/devices/rbac.yaml", "components/controller/rbac.yaml", "base/serviceaccounts.yaml"):
            for one in yaml.safe_load_all((MANIFESTS / file).read_text()):
                if one["kind"] in PATHS:
                    self.api.call("POST", PATHS[one["kind"]], one)

    def node(self, name: str, devices: dict[str, int], **labels: str) -> None:
        metadata = {"name": name, "labels": {f"gpu.intel.com/{key}": value for key, value in labels.items()}}
        node = self.api.call("POST", "/api/v1/nodes", {"metadata": metadata})
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "200", **{key: str(each) for key, each in devices.items()}}
        node["status"] = {"allocatable": amounts, "capacity": amounts}
        self.api.call("PUT", f"/api/v1/nodes/{name}/status", node)

    def pod(self, name: str, devices: dict[str, int], bandwidth: str = "") -> None:
        annotations = {"leadsman.dev/bandwidth": bandwidth} if bandwidth else {}
        amounts = {key: str(each) for key, each in devices.items()}
        container = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
        body = {"metadata": {"name": name, "annotations": annotations}, "spec": {"containers": [container]}}
        self.api.call("POST", PODS, body)

    def pods(self) -> list[Object]:
        found: list[Object] = self.api.call("GET", PODS)["items"]
        return found

    def bound(self) -> list[str]:
        return [pod["spec"]["nodeName"] for pod in self.pods() if "nodeName" in pod["spec"]]

    def all_tried(self) -> bool:
        """Whether each is bound, or was told that it fits nowhere."""
        return all("nodeName" in pod["spec"] or pod["status"].get("conditions") for pod in self.pods())

    def reasons(self) -> set[str]:
        waiting = [pod for pod in self.pods() if "nodeName" not in pod["spec"]]
        return {each["message"] for pod in waiting for each in pod["status"].get("conditions", ())}

    def clear(self) -> None:
        for pod in self.pods():
            self.api.call("DELETE", f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})


class InTurn:
    """Sends each request to the next of the extenders that answers, as a Service does. `before_answer` is called with
    the number of the request, its verb, and the extender that answered it."""

    def __init__(self, extenders: Sequence[LeadsmanProcess]) -> None:
        self.before_answer: Callable[[int, str, LeadsmanProcess], None] = lambda *_: None
        turn, number, outer = itertools.cycle(extenders), itertools.count(1), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                for _ in extenders:
                    extender = next(turn)
                    try:
                        with urlopen(Request(extender.url + self.path, body), timeout=10) as answer:
                            answered = answer.read()
                    except URLError:
                        continue
                    outer.before_answer(next(number), self.path, extender)
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(answered)))
                    self.end_headers()
                    self.wfile.write(answered)
                    return
                self.send_error(503)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> "InTurn":
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


class Reports:
    """Writes what an agent of each node would, until the block ends. by_node: the hardware values of each, which may be
    altered."""

    def __init__(self, etcd: Etcd, by_node: dict[str, dict[str, float]]) -> None:
        self._url, self._by_node, self._stop = etcd.client_url, by_node, threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> "Reports":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    async def _run(self) -> None:
        store = EtcdStore(EtcdAccess((self._url,)))
        for seq in itertools.count(1):
            for node, values in self._by_node.items():
                records = (Identity("uid", 1, "127.0.0.1"), Hardware(values), Heartbeat(1, seq, 5.0))
                await store.write([Put(keys.record_key(node, type(each)), codec.encode(each)) for each in records])
            if await asyncio.to_thread(self._stop.wait, 1.0):
                break
        await store.close()


def link(gbit: float) -> dict[str, float]:
    """A physical function whose virtual functions have no rate; of two, the agent reports the worse one."""
    return {
        metric_names.SRIOV_LINK_HEADROOM: gbit * GB,
        metric_names.SRIOV_LIMITED: 0.0,
        metric_names.SRIOV_LIMITED_FUNCTIONS: 0.0,
    }


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[DeviceCluster]:
    with KubeApiServer(kubernetes_binaries, tmp_path / "kubernetes", users={ACCOUNT: (), CONTROLLER: ()}) as api:
        one = DeviceCluster(api)
        one.grant_rights()
        yield one


class Scheduled:
    """What runs in a test: kube-scheduler, and the extenders that it asks in turn, if any."""

    def __init__(self, stack: ExitStack, start: "Start", until: "Until", etcd: Etcd, cluster: DeviceCluster) -> None:
        self._stack, self._start, self._until, self._etcd = stack, start, until, etcd
        self.cluster = cluster
        self._both: list[LeadsmanProcess] = []

    def extenders(self, folder: Path, links: dict[str, dict[str, float]]) -> InTurn:
        """Two, ready, with the links' reports fresh."""
        policy = folder / "policy.yaml"
        policy.write_text(f"devices: {{virtual_functions: [{VF}]}}\n")
        flags = self._flags(folder, ACCOUNT)
        self._stack.enter_context(Reports(self._etcd, links))
        both = self._both = [self._start("extender", *flags) for _ in range(2)]
        self._until(lambda: all(one.get("/readyz")[0] == 200 for one in both), "two extenders are up")
        fresh = 'leadsman_state_nodes{freshness="fresh"}'
        self._until(lambda: all(one.metric(fresh) == len(links) for one in both), "the reports are fresh")
        return self._stack.enter_context(InTurn(both))

    def _flags(self, folder: Path, account: str) -> list[str]:
        kubeconfig = self.cluster.api.kubeconfig(account)
        return ["--devices", "--policy", str(folder / "policy.yaml"), "--kubeconfig", str(kubeconfig)]

    def controller(self, folder: Path) -> None:
        """One that has refused pods tried again, ready."""
        one = self._start("controller", *self._flags(folder, CONTROLLER))
        self._until(lambda: one.get("/readyz")[0] == 200, "the controller is up", SECONDS)

    def schedule(self, binaries: Path, folder: Path, service: InTurn | None) -> None:
        options = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5, "httpTimeout": "10s"}
        configured = [{"urlPrefix": service.url, "nodeCacheCapable": True, **options}] if service else []
        try:
            one = KubeScheduler(binaries, folder / "scheduler", self.cluster.api, extenders=configured)
        except KubeApiServerMissing as missing:
            pytest.skip(str(missing))
        self._stack.enter_context(one)

    def rounds(self, pods: int, devices: dict[str, int], bandwidth: str, expected: int) -> None:
        """Again and again: so many pods at once, of which exactly so many are placed; then all are deleted."""
        for number in range(ROUNDS):
            for each in range(pods):
                self.cluster.pod(f"pod-{number}-{each}", devices, bandwidth)
            self.settle(expected)
            self.cluster.clear()
            self._until(lambda: not self.cluster.pods(), "the round's pods are gone")
            self._until(lambda: not self.seen_by_extenders(), "the extenders see that they are gone")

    def seen_by_extenders(self) -> bool:
        return any(one.metric("leadsman_extender_device_pods") for one in self._both)

    def settle(self, expected: int) -> None:
        """A pod that was refused for another's promise is tried again when that one is bound."""
        placed = lambda: self.cluster.all_tried() and len(self.cluster.bound()) >= expected  # noqa: E731
        try:
            self._until(placed, f"{expected} pods are placed", SECONDS)
        finally:
            assert len(self.cluster.bound()) == expected, self.cluster.reasons()


@pytest.fixture
def scheduled(start: "Start", until: "Until", etcd: Etcd, cluster: DeviceCluster) -> Iterator[Scheduled]:
    with ExitStack() as stack:
        yield Scheduled(stack, start, until, etcd, cluster)


CASES = {
    "8 functions, ten pods of 1 Gbit/s": ({VF: 8}, link(10), {VF: 1}, "1Gbit", 10, 8, 8),
    "8 functions on 10 Gbit/s, ten pods of 2 Gbit/s": ({VF: 8}, link(10), {VF: 1}, "2Gbit", 10, 5, 8),
    "two physical functions of 10 Gbit/s, of which the kubelet takes any": (
        {VF: 16},
        link(10),
        {VF: 1},
        "2Gbit",
        10,
        5,
        10,
    ),
    "two cards of 8 GB, three pods of 5 GB": ({I915: 20, MEMORY: 16 * GB}, {}, {I915: 1, MEMORY: 5 * GB}, "", 3, 2, 3),
}
"""What the node has and reports, what a pod asks, how many pods come; how many are placed with us, and without."""


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("with_leadsman", [True, False], ids=["with", "without"])
def test_pods_that_come_at_once_get_what_there_is(
    case: str, with_leadsman: bool, scheduled: Scheduled, kubernetes_binaries: Path, tmp_path: Path
) -> None:
    devices, reported, asked, bandwidth, pods, ours, theirs = CASES[case]
    scheduled.cluster.node("edge-1", devices, cards="card0.card1")
    service = scheduled.extenders(tmp_path, {"edge-1": reported}) if with_leadsman else None
    scheduled.schedule(kubernetes_binaries, tmp_path, service)
    scheduled.rounds(pods, asked, bandwidth, ours if with_leadsman else theirs)


def test_what_an_extender_promised_before_it_was_killed_stays_promised(
    scheduled: Scheduled, kubernetes_binaries: Path, tmp_path: Path
) -> None:
    """It is killed after it has answered, before kube-scheduler has the answer."""
    scheduled.cluster.node("edge-1", {VF: 8})
    service = scheduled.extenders(tmp_path, {"edge-1": link(10)})
    killed: list[str] = []

    def kill_once(number: int, verb: str, extender: LeadsmanProcess) -> None:
        if verb == "/filter" and not killed:
            killed.append(extender.url)
            extender.kill()

    service.before_answer = kill_once
    scheduled.schedule(kubernetes_binaries, tmp_path, service)
    for each in range(10):
        scheduled.cluster.pod(f"pod-{each}", {VF: 1}, "2Gbit")
    scheduled.settle(5)
    assert killed


def test_a_pod_that_a_link_refused_is_placed_soon_after_the_link_has_room(
    scheduled: Scheduled, kubernetes_binaries: Path, tmp_path: Path, until: "Until"
) -> None:
    """Nothing of it is seen by kube-scheduler, which alone tries the pod again after five minutes."""
    scheduled.cluster.node("edge-1", {VF: 8})
    links = {"edge-1": link(1)}
    service = scheduled.extenders(tmp_path, links)
    scheduled.controller(tmp_path)
    scheduled.schedule(kubernetes_binaries, tmp_path, service)
    scheduled.cluster.pod("large", {VF: 1}, "2Gbit")
    refused = "the node's link has not the bandwidth left"
    until(lambda: any(refused in reason for reason in scheduled.cluster.reasons()), "the pod is refused", SECONDS)
    links["edge-1"] = link(10)
    until(scheduled.cluster.bound, "the pod is placed", SECONDS)


def test_a_value_that_cannot_be_read_is_told_to_the_user(
    scheduled: Scheduled, kubernetes_binaries: Path, tmp_path: Path, until: "Until"
) -> None:
    scheduled.cluster.node("edge-1", {VF: 8})
    scheduled.schedule(kubernetes_binaries, tmp_path, scheduled.extenders(tmp_path, {"edge-1": link(10)}))
    scheduled.cluster.pod("bad", {VF: 1}, "2GB")
    until(scheduled.cluster.reasons, "the pod is refused")
    events = "/api/v1/namespaces/default/events?fieldSelector=reason=FailedScheduling"
    told = "annotation leadsman.dev/bandwidth is '2GB'; it must be a number and a unit of bit/s"
    items = lambda: scheduled.cluster.api.call("GET", events)["items"]  # noqa: E731
    until(lambda: any(told in event["message"] for event in items()), "an Event")
