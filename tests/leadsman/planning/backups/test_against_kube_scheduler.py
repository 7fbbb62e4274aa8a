"""A real kube-scheduler judges backup plans: on random clusters a node, rack or zone fails, and every pod that the plan
covers is bound to its backup, in no more room than its placeholders held.

Runs where KUBEBUILDER_ASSETS names a folder that has kube-scheduler too. An extender of the test offers each
replacement its backup alone, and only if every plugin of kube-scheduler passes it; delays are a matrix. There is no
kubelet and no controller-manager: the test ends pods and makes the owners' new ones. JUDGED_CLUSTERS=200 tries more.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

import pytest

from controller.placeholders import placeholder_body, resource_list
from controller.settings import PlaceholderSettings
from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.kube.names import BACKUP_ANNOTATION, PLACEHOLDER_NAMESPACE
from leadsman.planning.backups.backup_plan import BackupPlan, BackupSettings, Failure, FailureDomains
from leadsman.planning.backups.placeholders import (
    CoverageState,
    CreatePlaceholder,
    coverage_of,
    placeholders_by_node,
    plan_placeholders,
    plan_release,
)
from leadsman.planning.backups.planner import plan_backups
from leadsman.planning.situation import Situation
from tests.leadsman.cluster import random_objects
from tests.leadsman.cluster.random_objects import NAMESPACES, RACK, Object
from tests.leadsman.cluster.test_against_kube_scheduler import OLDEST_MINOR, read_objects
from tests.leadsman.planning.backups.random_clusters import inputs_of
from tests.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing
from tests.testbed.kube_scheduler import KubeScheduler

pytestmark = pytest.mark.slow

NODES, PODS = 8, 16
CLUSTERS = int(os.environ.get("JUDGED_CLUSTERS", "20"))
ONCE_STUCK = (61, 105, 113, 139)
"""Where a pod of an earlier planner found no place, because of others that fell with it."""

WITHIN_SECONDS = 60.0
PRIORITY = {"metadata": {"name": "leadsman-placeholder"}, "value": -100, "preemptionPolicy": "Never"}


class OnlyTheBackup(BaseHTTPRequestHandler):
    """Offers each pod in `backups` its node alone, and all others whatever kube-scheduler found."""

    backups: dict[str, str] = {}  # noqa: RUF012

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        only = self.backups.get(asked["Pod"]["metadata"]["name"])
        kept = [node for node in asked["NodeNames"] if only in (None, node)]
        body = json.dumps({"NodeNames": kept}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def api(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiServer]:
    """An API server, and a kube-scheduler that asks OnlyTheBackup."""
    folder = tmp_path_factory.mktemp("judged")
    server = ThreadingHTTPServer(("127.0.0.1", 0), OnlyTheBackup)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    extender = {"urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": True, "httpTimeout": "10s"}
    with KubeApiServer(kubernetes_binaries, folder / "kubernetes") as one:
        for namespace in ("other", PLACEHOLDER_NAMESPACE):
            one.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        one.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", PRIORITY)
        try:
            scheduler = KubeScheduler(kubernetes_binaries, folder / "scheduler", one, extenders=[extender])
        except KubeApiServerMissing as missing:
            pytest.skip(str(missing))
        if scheduler.minor_version() < OLDEST_MINOR:
            pytest.skip(f"the kube-scheduler that KUBEBUILDER_ASSETS names is older than 1.{OLDEST_MINOR}")
        with scheduler:
            yield one
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("seed", sorted({*range(CLUSTERS), *ONCE_STUCK}))
def test_kube_scheduler_binds_every_covered_pod_of_a_failure_to_its_backup(api: KubeApiServer, seed: int) -> None:
    trial = Trial(api, seed)
    try:
        failure, falling = trial.prepare()
        trial.fail(failure, falling)
        bound = trial.bound(len(falling))
        assert bound == {f"again-{pod.name}": trial.plan.backups[pod.uid].node for pod in falling}
        sys.stdout.write(
            f"seed {seed}: {failure.domain} fails, {len(falling)} covered pods are bound to their backups\n"
        )
    finally:
        trial.empty()


class Trial:
    """One random cluster in the API server, and its plan."""

    def __init__(self, api: KubeApiServer, seed: int) -> None:
        self.api, self.plan, self._rng = api, BackupPlan(), Random(seed)
        self._pods: dict[str, Object] = {}
        self._position: dict[str, tuple[float, float]] = {}

    def prepare(self) -> tuple[Failure, list[ClusterPod]]:
        """The failure that most covered pods fall with, and these. All room but that of placeholders is taken."""
        for number in range(NODES):
            node = random_objects.node(self._rng, number)
            self._position[node["metadata"]["name"]] = self._rng.uniform(0, 30), self._rng.uniform(0, 30)
            self.api.call("POST", "/api/v1/nodes", node)
        for number in range(PODS):
            self._create(number)
        cluster = read_objects(self.api)
        settings = BackupSettings(rack_label=RACK)
        inputs = inputs_of(cluster, self._delays())
        self.plan = plan_backups(Situation(cluster, inputs), settings)
        self._hold_room(cluster)
        cluster = read_objects(self.api)
        covered = {
            uid
            for uid, each in coverage_of(cluster, self.plan, {}).items()
            if each.state is CoverageState.COVERED and not each.reason
        }
        self._take_the_rest(cluster)
        domains = FailureDomains(cluster, inputs, RACK)
        failures = [
            domains.failure(each) for each in sorted({d for b in self.plan.backups.values() for d in b.domains})
        ]
        fallen = lambda failure: [  # noqa: E731
            pod for pod in failure.pods if pod.uid in covered and failure.domain in self.plan.backups[pod.uid].domains
        ]
        failure = max(failures, key=lambda each: len(fallen(each)))
        return failure, fallen(failure)

    def fail(self, failure: Failure, falling: list[ClusterPod]) -> None:
        """The nodes and their pods go, placeholders are released, and the owners make the covered pods again."""
        there = {node: [*pods] for node, pods in placeholders_by_node(read_objects(self.api)).items()}
        for pod in failure.pods:
            self._delete_pod(pod.namespace, pod.name)
        for node in failure.nodes:
            self.api.call("DELETE", f"/api/v1/nodes/{node}")
        for pod in falling:
            backup = self.plan.backups[pod.uid].node
            released = {action.name for action in plan_release(there[backup], pod.requests, resize=False)}
            for name in released:
                self._delete_pod(PLACEHOLDER_NAMESPACE, name)
            there[backup] = [each for each in there[backup] if each.name not in released]
        OnlyTheBackup.backups = {f"again-{pod.name}": self.plan.backups[pod.uid].node for pod in falling}
        for pod in falling:
            again = self._pods[pod.name]
            spec = {name: value for name, value in again["spec"].items() if name != "nodeName"}
            body = {"metadata": {**again["metadata"], "name": f"again-{pod.name}"}, "spec": spec}
            self.api.call("POST", f"/api/v1/namespaces/{pod.namespace}/pods", body)

    def bound(self, pods: int) -> Mapping[str, str]:
        """Replacement → its node, once so many have one or kube-scheduler had time enough."""
        deadline = time.monotonic() + WITHIN_SECONDS
        while True:
            listed = self.api.call("GET", "/api/v1/pods")["items"]
            again = [pod for pod in listed if pod["metadata"]["name"].startswith("again-")]
            found = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in again}
            if sum(map(bool, found.values())) >= pods or time.monotonic() > deadline:
                return found
            time.sleep(0.1)

    def empty(self) -> None:
        for pod in self.api.call("GET", "/api/v1/pods")["items"]:
            self._delete_pod(pod["metadata"]["namespace"], pod["metadata"]["name"])
        for node in self.api.call("GET", "/api/v1/nodes")["items"]:
            self.api.call("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")

    def _create(self, number: int) -> None:
        """A pod of a ReplicaSet on a random node, bound to another by a delay, that survives one of the failures."""
        body = random_objects.pod(self._rng, f"p{number}", on=self._rng.choice(sorted(self._position)))
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": f"rs-{number}", "controller": True}
        bound = {f"delay_{self._rng.choice(sorted(self._position))}": str(self._rng.choice((15, 25, 40)))}
        scope = {BACKUP_ANNOTATION: self._rng.choice(("node", "node", "rack", "zone"))}
        labels = body["metadata"]["labels"] | bound
        body["metadata"] |= {"labels": labels, "annotations": scope, "ownerReferences": [owner]}
        self._pods[f"p{number}"] = body
        self.api.call("POST", f"/api/v1/namespaces/{self._rng.choice(NAMESPACES)}/pods", body)

    def _hold_room(self, cluster: Cluster) -> None:
        """Placeholders, once kube-scheduler has judged each: bound, or without the room."""
        path = f"/api/v1/namespaces/{PLACEHOLDER_NAMESPACE}/pods"
        for action in plan_placeholders(cluster, self.plan, resize=False):
            assert isinstance(action, CreatePlaceholder)
            self.api.call("POST", path, placeholder_body(action, PlaceholderSettings()))
        self._until(lambda: all(pod["status"].get("conditions") for pod in self.api.call("GET", path)["items"]))

    def _take_the_rest(self, cluster: Cluster) -> None:
        """The nodes become as small as what is requested on them."""
        for name, node in cluster.nodes.items():
            free = cluster.free(name)
            if min(free.cpu_millis, free.memory_bytes, free.pods, *free.extended.values(), 0) < 0:
                continue
            used = node.allocatable - free
            allocatable = {**resource_list(used), "pods": str(used.pods)}
            self.api.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"allocatable": allocatable}})

    def _delays(self) -> Mapping[str, Mapping[str, float]]:
        at = self._position
        return {
            a: {b: ((xa - xb) ** 2 + (ya - yb) ** 2) ** 0.5 for b, (xb, yb) in at.items()} for a, (xa, ya) in at.items()
        }

    def _delete_pod(self, namespace: str, name: str) -> None:
        self.api.call("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", {"gracePeriodSeconds": 0})

    def _until(self, condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + WITHIN_SECONDS
        while not condition():
            assert time.monotonic() < deadline, "kube-scheduler did not judge all placeholders"
            time.sleep(0.05)
