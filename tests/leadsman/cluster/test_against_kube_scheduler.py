"""A real kube-scheduler and the model say the same of every pod on every node of small random clusters.

Runs where KUBEBUILDER_ASSETS names a folder that has kube-scheduler too. An extender of our own is called with the
nodes that pass every plugin of kube-scheduler, which is the answer; it refuses them all, so that nothing is placed.
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

import pytest

from leadsman.cluster.model import Cluster
from leadsman.cluster.scheduling import Feasibility
from leadsman.sources.cluster.cluster_follower import LISTS, read_cluster
from tests.leadsman.cluster import random_objects
from tests.leadsman.cluster.random_objects import NAMESPACES, Object
from tests.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing
from tests.testbed.kube_scheduler import KubeScheduler
from tests.waiting import blocked_until

pytestmark = pytest.mark.slow

NODES, PLACED, PENDING, VOLUMES = 12, 24, 30, 6

OLDEST_MINOR = 27
"""Older ones count other pods for topology spread: 1.20 also those on nodes that the pod's node affinity excludes, and
every pod for an empty selector."""


class RecordingExtender(BaseHTTPRequestHandler):
    """Remembers which nodes kube-scheduler offers for each pod, and refuses them."""

    offered: dict[str, set[str]] = {}  # noqa: RUF012

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        nodes = asked["NodeNames"] or ()
        self.offered[asked["Pod"]["metadata"]["uid"]] = set(nodes)
        body = json.dumps({"NodeNames": [], "FailedNodes": dict.fromkeys(nodes, "recorded")}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def offered() -> Iterator[tuple[str, dict[str, set[str]]]]:
    """The extender's address, and pod UID → the nodes that kube-scheduler would bind it to."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), RecordingExtender)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", RecordingExtender.offered
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def api(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiServer]:
    with KubeApiServer(kubernetes_binaries, tmp_path_factory.mktemp("scheduled") / "kubernetes") as one:
        one.call("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
        late = {"provisioner": random_objects.DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
        zones = [{"matchLabelExpressions": [{"key": random_objects.ZONE, "values": ["a", "b"]}]}]
        by_class = "/apis/storage.k8s.io/v1/storageclasses"
        one.call("POST", by_class, {"metadata": {"name": "late"}, **late, "allowedTopologies": zones})
        yield one


@pytest.mark.parametrize("seed", range(8))
def test_the_model_allows_exactly_the_nodes_that_kube_scheduler_does(
    kubernetes_binaries: Path, tmp_path: Path, api: KubeApiServer, offered, seed: int
) -> None:
    extender = {"urlPrefix": offered[0], "filterVerb": "filter", "nodeCacheCapable": True, "httpTimeout": "10s"}
    try:
        scheduler = KubeScheduler(kubernetes_binaries, tmp_path, api, extenders=[extender])
    except KubeApiServerMissing as missing:
        pytest.skip(str(missing))
    if scheduler.minor_version() < OLDEST_MINOR:
        pytest.skip(f"the kube-scheduler that KUBEBUILDER_ASSETS names is older than 1.{OLDEST_MINOR}")
    _empty(api, read_objects(api))
    _fill(api, Random(seed), seed)
    cluster = read_objects(api)
    pending = [pod for pod in cluster.unbound_pods if pod.name.startswith("q")]
    with scheduler:  # Started after all objects are there: what it judges first, it judges on all of them.
        blocked_until(lambda: _is_judged(api, len(pending)), f"kube-scheduler judged {len(pending)} pods")
    verdicts = [(pod, Feasibility(cluster, pod)) for pod in pending]
    differing = [
        f"{pod.name} on {node}: {verdict.refusals(node) or 'allowed'}, unlike kube-scheduler: {pod}"
        for pod, verdict in verdicts
        for node in set(verdict.nodes) ^ offered[1].get(pod.uid, set())
    ]
    assert not differing
    allowed = sum(len(each.nodes) for _, each in verdicts)
    assert 0 < allowed < len(pending) * NODES


def _fill(api: KubeApiServer, rng: Random, seed: int) -> None:
    names = [f"n{number}" for number in range(NODES)]
    for number in range(NODES):
        node = api.call("POST", "/api/v1/nodes", random_objects.node(rng, number))
        if rng.random() < 0.5:
            csi_node = random_objects.csi_node(rng, node["metadata"]["name"], node["metadata"]["uid"])
            api.call("POST", "/apis/storage.k8s.io/v1/csinodes", csi_node)
    claims = [_claim(api, rng, f"{seed}-{number}", bound=number % 3 != 0) for number in range(VOLUMES)]
    for number in range(PLACED):
        mine = (claims.pop(),) if number % 8 == 0 and claims else ()
        _create(api, rng, random_objects.pod(rng, f"p{number}", mine, on=rng.choice(names)), mine)
    for number in range(PENDING):
        mine = (rng.choice(claims),) if rng.random() < 0.3 else ()
        _create(api, rng, random_objects.pod(rng, f"q{number}", mine), mine)


def _create(api: KubeApiServer, rng: Random, pod: Object, claims: tuple[str, ...]) -> None:
    namespace = "default" if claims else rng.choice(NAMESPACES)
    api.call("POST", f"/api/v1/namespaces/{namespace}/pods", pod)


def _claim(api: KubeApiServer, rng: Random, name: str, bound: bool) -> str:
    """Creates a claim, and its volume if it is bound. There is no controller that binds them."""
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    made = api.call("POST", claims, random_objects.claim(rng, f"c{name}", f"v{name}" if bound else ""))
    volume = random_objects.volume(rng, f"v{name}")
    if bound:
        owner = {"namespace": "default", "name": f"c{name}", "uid": made["metadata"]["uid"]}
        volume["spec"]["claimRef"] = owner
        api.call("POST", "/api/v1/persistentvolumes", volume)
        api.call("PATCH", f"{claims}/c{name}/status", {"status": {"phase": "Bound"}})
    return f"c{name}"


def read_objects(api: KubeApiServer) -> Cluster:
    items: list[Any] = []
    for kind, options in LISTS.items():
        if kind != "PodDisruptionBudget":  # policy/v1 came with Kubernetes 1.21, and budgets decide no node
            items += [{"kind": kind, **each} for each in api.call("GET", options.resource.path())["items"]]
    return read_cluster(json.dumps({"items": items}).encode())


def _is_judged(api: KubeApiServer, pods: int) -> bool:
    """kube-scheduler writes the condition PodScheduled after it has judged a pod, also one that fits nowhere."""
    listed = api.call("GET", "/api/v1/pods")["items"]
    conditions = [each["type"] for pod in listed for each in pod["status"].get("conditions", ())]
    return conditions.count("PodScheduled") >= pods


def _empty(api: KubeApiServer, cluster: Cluster) -> None:
    for pod in cluster.pods.values():
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        api.call("DELETE", f"{path}?gracePeriodSeconds=0")
    for node in cluster.nodes.values():
        api.call("DELETE", f"/api/v1/nodes/{node.name}")
        if node.attach_limits:
            api.call("DELETE", f"/apis/storage.k8s.io/v1/csinodes/{node.name}")
