"""An API server with nodes that have devices, what agents would report of their links, and who schedules on it."""

import asyncio
import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import URLError
from urllib.request import Request, urlopen

from msgspec import Struct

from leadsman.state import metric_names
from leadsman.state.records import Hardware, Heartbeat, Identity
from leadsman.testbed.etcd import Etcd
from tests.leadsman_process import LeadsmanProcess
from tests.testbed.paper_cluster import COLLECTIONS, CONTROLLER, DEFAULT_PODS, EXTENDER, PaperCluster, add_node, install
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start, write_records

VF = "openshift.io/sriov"
GB = 10**9


class ExtendersInTurn:
    """Sends each request to the next of the extenders that answers, as a Service does.

    extenders: may be altered.
    filtered: the pod of each /filter that was answered, in order.
    before_answer: called with the verb and the extender that answered it, before kube-scheduler has the answer.
    """

    def __init__(self, extenders: Sequence[LeadsmanProcess]) -> None:
        self.extenders = [*extenders]
        self.filtered: list[str] = []
        self.before_answer: Callable[[str, LeadsmanProcess], None] = lambda *_: None
        turn, outer = itertools.count(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                for _ in range(len(outer.extenders)):
                    extender = outer.extenders[next(turn) % len(outer.extenders)]
                    try:
                        with urlopen(Request(extender.url + self.path, body), timeout=10) as answer:
                            answered = answer.read()
                    except URLError:
                        continue
                    outer.before_answer(self.path, extender)
                    if self.path == "/filter":
                        outer.filtered.append(json.loads(body)["Pod"]["metadata"]["name"])
                    with contextlib.suppress(ConnectionError):  # kube-scheduler ends before the extenders do
                        self._reply(answered)
                    return
                self.send_error(503)

            def _reply(self, answered: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answered)))
                self.end_headers()
                self.wfile.write(answered)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> "ExtendersInTurn":
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


class DeviceCluster(PaperCluster):
    """Nodes that have devices."""

    def grant_rights(self) -> None:
        """What the components `devices` and `controller` and the base give the two, and no more."""
        self.api.call("POST", COLLECTIONS["Namespace"], {"metadata": {"name": "leadsman"}})
        rights = ("components/devices/rbac.yaml", "components/controller/rbac.yaml", "base/serviceaccounts.yaml")
        install(self.api, *rights)

    def node(self, name: str, devices: dict[str, int], **labels: str) -> None:
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "200", **{key: str(each) for key, each in devices.items()}}
        add_node(self.api, name, amounts, **{f"gpu.intel.com/{key}": value for key, value in labels.items()})

    def annotate(self, node: str, value: str) -> None:
        """kube-scheduler tries refused pods again when an annotation of a node changes."""
        self.api.call("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"annotations": {"example.com/touched": value}}})

    def asking_pod(self, name: str, devices: dict[str, int], bandwidth: str = "") -> None:
        amounts = {key: str(each) for key, each in devices.items()}
        annotations = {"leadsman.dev/bandwidth": bandwidth} if bandwidth else {}
        self.pod(name, {"requests": amounts, "limits": amounts}, {"annotations": annotations})

    def reasons(self) -> set[str]:
        return {each["message"] for pod in self.waiting() for each in pod["status"].get("conditions", ())}

    def clear(self) -> None:
        self.api.call("DELETE", DEFAULT_PODS, {"gracePeriodSeconds": 0})


class Reports:
    """Writes what an agent of each node would, until the block ends. by_node: the hardware values of each, which may be
    altered."""

    def __init__(self, etcd: Etcd, by_node: dict[str, dict[str, float]]) -> None:
        self._etcd, self._by_node, self._stop = etcd, by_node, threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> "Reports":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    async def _run(self) -> None:
        for seq in itertools.count(1):
            common = Identity("uid", 1, "127.0.0.1"), Heartbeat(1, seq, 5.0)
            await write_records(self._etcd, {node: (Hardware(each), *common) for node, each in self._by_node.items()})
            if await asyncio.to_thread(self._stop.wait, 1.0):
                break


def link(gbit: float) -> dict[str, float]:
    """A physical function whose virtual functions have no rate; of two, the agent reports the worse one."""
    return {
        metric_names.SRIOV_LINK_HEADROOM: gbit * GB,
        metric_names.SRIOV_LIMITED: 0.0,
        metric_names.SRIOV_LIMITED_FUNCTIONS: 0.0,
    }


NODE = "edge-1"

RETRIED_SECONDS = 240.0
"""For a refused pod to be tried again: less than the 300 s after which kube-scheduler alone does so."""

SETTLE_SECONDS = 600.0
"""For a round to end. It takes a second; under load, where etcd misses the 100 ms that a reservation may take to
be withdrawn, as long as such reservations live: 140 s each."""


class Round(Struct, frozen=True):
    """Pods that come at once.

    devices, bandwidth: what each asks.
    room: how many of them fit.
    room_alone: how many kube-scheduler alone takes to fit, by what it counts.
    """

    pods: int
    devices: dict[str, int]
    bandwidth: str
    room: int
    room_alone: int


class ScheduledCluster:
    """What runs in a test: nodes, kube-scheduler, and the extenders that it asks in turn."""

    def __init__(self, stack: ExitStack, start: Start, etcd: Etcd, cluster: DeviceCluster) -> None:
        self._stack, self._start, self._etcd = stack, start, etcd
        self._policy = cluster.api.folder.with_name("policy.yaml")
        self._number, self._nodes = 0, 1
        self.cluster = cluster

    def run(self, reported: dict[str, float], nodes: Sequence[str] = (NODE,)) -> ExtendersInTurn:
        """Starts two extenders and a controller, as docs/devices.md has them installed, and kube-scheduler.

        reported: of each node's links, which may be altered.
        """
        self._policy.write_text(f"devices: {{virtual_functions: [{VF}]}}\n")
        self._nodes = len(nodes)
        self._stack.enter_context(Reports(self._etcd, dict.fromkeys(nodes, reported)))
        self.service = self._stack.enter_context(ExtendersInTurn([self.extender(), self.extender()]))
        self._start("controller", *self._flags(CONTROLLER)).ready(SETTLE_SECONDS)
        self.cluster.schedule(self.service.url)
        return self.service

    def extender(self) -> LeadsmanProcess:
        """One more, ready."""
        one = self._start("extender", *self._flags(EXTENDER)).ready(SETTLE_SECONDS)
        fresh = 'leadsman_state_nodes{freshness="fresh"}'
        until(lambda: one.metric(fresh) == self._nodes, "the reports are fresh", SETTLE_SECONDS)
        return one

    def _flags(self, account: str) -> list[str]:
        kubeconfig = self.cluster.api.kubeconfig(account)
        return ["--devices", "--policy", str(self._policy), "--kubeconfig", str(kubeconfig)]

    def place(self, each: Round) -> None:
        """Until as many are placed as fit, and those that the extenders refused were refused again since."""
        for number in range(each.pods):
            self.cluster.asking_pod(f"pod-{self._number}-{number}", each.devices, each.bandwidth)
        self._number += 1
        try:
            settled = lambda: len(self.cluster.bound()) >= each.room and not self.cluster.untried()  # noqa: E731
            until(settled, f"{each.room} pods are placed", SETTLE_SECONDS)
            if each.room < each.room_alone:
                self._until_refused_again()
        finally:
            assert len(self.cluster.bound()) == each.room, self.cluster.reasons()

    def _until_refused_again(self) -> None:
        seen = len(self.service.filtered)
        self.cluster.annotate(NODE, str(seen))
        asked = lambda: set(self.service.filtered[seen:])  # noqa: E731
        again = lambda: {pod["metadata"]["name"] for pod in self.cluster.waiting()} <= asked()  # noqa: E731
        until(again, "the pods that wait are refused once more", SETTLE_SECONDS)

    def clear(self) -> None:
        """No pod is left, and the extenders know."""
        self.cluster.clear()
        until(lambda: not self.cluster.pods(), "the round's pods are gone", SETTLE_SECONDS)
        seen = lambda: [one.metric("leadsman_extender_device_pods") for one in self.service.extenders]  # noqa: E731
        until(lambda: not any(seen()), "the extenders see that they are gone", SETTLE_SECONDS)
