"""The page, and the demos of the systems that Leadsman takes the place of, with their own manifests, on the cluster.

Each returns what was seen, in words, or raises DemoFailed.
"""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from leadsman.testbed.etcd import die_with_parent
from tests.e2e.cluster import Cluster
from tests.e2e.images import ROOT
from tests.e2e.node_config import CONTROL_PLANE
from tests.e2e.rollout import COMPONENTS, Rollout
from tests.e2e.state_watch import doubted_nodes

DATA = ROOT / "tests/data"
DEFAULT_PODS = "/api/v1/namespaces/default/pods"
TAS_NAMESPACE = "health-metric-demo"
FORWARDED_WITHIN_SECONDS = 30.0
TEST_PODS = 8
"""One could have found the node by chance."""

NODE_METRIC = {"edge-1": 5, "edge-2": 50, "edge-3": 120, "cloud-1": 20}
"""Below 10: dontschedule; above 100: labelled; the largest is the best; -1: deschedule."""

_MEASURES_NOTHING = """\
  - target: {kind: DaemonSet, name: leadsman-agent}
    patch: |-
      - {op: add, path: /spec/template/spec/nodeSelector, value: {kubernetes.io/hostname: none}}
"""
"""The nodes here are 0.1 ms apart, and what agents measure comes before a file: so no agent runs."""


class DemoFailed(RuntimeError):
    """A pod is not where the demo says."""


Shows = Callable[[Cluster, Rollout], str]

EDGES = ("edge-1", "edge-2", "edge-3")


def on(*nodes: str) -> Callable[[Shows], Shows]:
    """With the nodes of the demo alone: pods come to no other one."""

    def of(show: Shows) -> Shows:
        def shown(cluster: Cluster, rollout: Rollout) -> str:
            others = [node.name for node in cluster.nodes if node.name not in nodes]
            try:
                for node in others:
                    cluster.kubectl("cordon", node)
                return show(cluster, rollout)
            finally:
                for node in others:
                    cluster.kubectl("uncordon", node)

        return shown

    return of


@on(*EDGES)
def kuberl(cluster: Cluster, _: Rollout) -> str:
    """Three replicas, of which two crash on their nodes; pods of their type then avoid these nodes."""
    demo = DATA / "kuberl_demo"
    cluster.kubectl("apply", "-f", str(demo / "demo-deployment.yaml"))
    try:
        waited = cluster.until(lambda: _crashes(cluster).keys() == {"edge-1", "edge-2"}, "crashes on two nodes", 300)
        cluster.until(lambda: _crashes(cluster)["edge-1"] >= 3, "three crashes on edge-1")
        cluster.until(lambda: doubted_nodes(cluster, "D") == 2, "each extender doubts both nodes")
        text = (demo / "test-pod.yaml").read_text()
        names = [f"test-pod-{number}" for number in range(TEST_PODS)]
        for name in names:
            cluster.kubectl("apply", "-f", "-", stdin=text.replace("name: test-pod", f"name: {name}"))
        places = _places(cluster, DEFAULT_PODS, names)
        if set(places.values()) != {"edge-3"}:
            raise DemoFailed(f"pods of type D went to {places}; edge-1 and edge-2 crash them")
        crashes = _crashes(cluster)
        return f"crashes {crashes} after {waited:.0f} s; {TEST_PODS} of {TEST_PODS} test pods on edge-3"
    finally:
        cluster.kubectl("delete", "-f", str(demo / "demo-deployment.yaml"), "--wait=false")
        cluster.kubectl("delete", "pod", "-l", "podtype=D", "--force", "--grace-period=0", "--wait=false")


@on(*EDGES, "cloud-1")
def telemetry(cluster: Cluster, rollout: Rollout) -> str:
    """A health metric in Prometheus: where the app goes, labels, the mark, and what the descheduler would evict."""
    metric = dict(NODE_METRIC)
    exporter = _serve_metric(metric)
    prometheus = _prometheus(rollout.folder / "prometheus")
    try:
        rollout.apply(COMPONENTS, {"LEADSMAN_TELEMETRY": f"prometheus=http://{CONTROL_PLANE}:9090"})
        for node in cluster.nodes:
            _advertise(cluster, node.name)
        cluster.kubectl("create", "namespace", TAS_NAMESPACE)
        cluster.kubectl("apply", "-f", str(DATA / "taspolicies/scheduling-policy.yaml"))
        cluster.until(lambda: _labels(cluster, "edge-3") == {"label1": "foo", "label2": "bar"}, "labels of edge-3", 60)
        cluster.kubectl("apply", "-f", str(DATA / "health_metric_demo/demo-app.yaml"))
        first = _app_node(cluster)
        if first != "edge-3":
            raise DemoFailed(f"demo-app went to {first}, and edge-3 has the largest node_metric")
        metric["edge-3"] = -1
        marked = cluster.until(lambda: _is_marked(cluster, "edge-3"), "edge-3 is marked", 60)
        cluster.until(lambda: not _labels(cluster, "edge-3"), "the labels of edge-3 are gone", 120)
        # The descheduler's RemovePodsViolatingNodeAffinity: the pod's affinity excludes the mark.
        cluster.kubectl("-n", TAS_NAMESPACE, "delete", "pod", "-l", "app=demo", "--force", "--grace-period=0")
        second = _app_node(cluster)
        if second != "edge-2":
            raise DemoFailed(f"demo-app went to {second}, and edge-2 has the largest node_metric of the unmarked")
        metric["edge-3"] = 60
        cluster.until(lambda: not _is_marked(cluster, "edge-3"), "the mark of edge-3 is gone", 180)
        return f"demo-app on edge-3, labelled; marked {marked:.0f} s after -1, then on edge-2; unmarked after recovery"
    finally:
        cluster.kubectl("delete", "namespace", TAS_NAMESPACE, "--ignore-not-found", "--wait=false")
        rollout.apply(COMPONENTS)
        prometheus.kill()
        prometheus.wait()
        exporter.shutdown()
        exporter.server_close()
        for node in cluster.nodes:
            _advertise(cluster, node.name, False)


@on(*EDGES, "cloud-1")
def edge_scheduler(cluster: Cluster, rollout: Rollout) -> str:
    """The four requests: the third one's room is made by moving the first one's pod within its bound."""
    demo = DATA / "edge_scheduler_demo"
    files = {name: demo / name for name in ("delays.txt", "rows.json")}
    settings = {
        "LEADSMAN_DELAY_MATRIX": "/etc/leadsman/delays.txt",
        "LEADSMAN_DELAY_METADATA": "/etc/leadsman/rows.json",
    }
    cluster.kubectl("label", "node", "cloud-1", "kubernetes.io/role=cloud")
    try:
        rollout.apply((*COMPONENTS, "self-healing"), settings, files, _MEASURES_NOTHING)
        requests = sorted((demo / "requests").iterdir())
        seen = []
        for number, request in enumerate(requests, 1):
            cluster.kubectl("apply", "-f", str(request))
            workload = f"deployment{number}"
            seconds = cluster.until(lambda w=workload: _bound_of(cluster, w), f"{workload} is bound", 300)  # type: ignore[misc]
            seen.append(f"req{number} on {_bound_of(cluster, workload)} after {seconds:.0f} s")
        cluster.until(lambda: _bound_of(cluster, "deployment1"), "deployment1 is bound again", 120)
        places = {f"deployment{number}": _bound_of(cluster, f"deployment{number}") for number in range(1, 5)}
        third = places["deployment3"]
        if third != "edge-1" or places["deployment4"] != third or places["deployment1"] not in ("edge-2", "edge-3"):
            raise DemoFailed(f"{places}; req3 belongs on edge-1, req4 beside it, req1 within 25 ms of edge-1")
        if places["deployment2"] != "cloud-1":
            raise DemoFailed(f"{places}; req2 is unbounded and belongs in the cloud")
        return "; ".join([*seen, f"req1 moved to {places['deployment1']}"])
    finally:
        for request in (demo / "requests").iterdir():
            cluster.kubectl("delete", "-f", str(request), "--ignore-not-found", "--wait=false")
        cluster.kubectl("label", "node", "cloud-1", "kubernetes.io/role-")
        rollout.apply(COMPONENTS)


def page_is_reached(cluster: Cluster, _: Rollout) -> str:
    """The address that `leadsman page` prints leads to the page, which knows every node."""
    environ = {**os.environ, "PATH": f"{cluster.binaries}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "leadsman.cli.main", "page", f"--kubeconfig={cluster.api.kubeconfig()}"]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent
    ) as page:
        try:
            assert page.stdout
            assert page.stderr
            printed = page.stdout.readline().split()
            if len(printed) < 2:
                page.terminate()
                raise RuntimeError(f"leadsman page: {page.stderr.read()}")
            fresh = _overview(printed[1])["nodes"]["fresh"]
        finally:
            page.terminate()
    if fresh != len(cluster.nodes):
        raise RuntimeError(f"{fresh} of {len(cluster.nodes)} nodes are fresh on the page")
    return f"by port-forward: {fresh} nodes fresh"


def _overview(address: str) -> Any:
    """Asked until kubectl forwards the port."""
    until = time.monotonic() + FORWARDED_WITHIN_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{address}api/v1/overview", timeout=30) as answer:
                return json.load(answer)
        except urllib.error.URLError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def _crashes(cluster: Cluster) -> Mapping[str, int]:
    """Node → how often its replica was restarted."""
    counts = dict[str, int]()
    for pod in cluster.api.call("GET", f"{DEFAULT_PODS}?labelSelector=app%3Drl-demo")["items"]:
        restarts = sum(each["restartCount"] for each in pod["status"].get("containerStatuses", []))
        ended = any(each["state"].get("terminated") for each in pod["status"].get("containerStatuses", []))
        if restarts or ended:
            counts[pod["spec"]["nodeName"]] = max(1, restarts)
    return counts


def _places(cluster: Cluster, pods: str, names: list[str]) -> Mapping[str, str]:
    def node(name: str) -> str:
        return str(cluster.api.call("GET", f"{pods}/{name}")["spec"].get("nodeName", ""))

    cluster.until(lambda: all(map(node, names)), "the test pods are bound", 120)
    return {name: node(name) for name in names}


def _bound_of(cluster: Cluster, deployment: str) -> str:
    """The node of the Deployment's one pod; "": it has none yet."""
    app = f"app{deployment.removeprefix('deployment')}"
    pods = cluster.api.call("GET", f"{DEFAULT_PODS}?labelSelector=app%3D{app}")["items"]
    nodes = [pod["spec"].get("nodeName", "") for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return str(nodes[0]) if nodes else ""


def _app_node(cluster: Cluster) -> str:
    def bound() -> list[str]:
        pods = cluster.api.call("GET", f"/api/v1/namespaces/{TAS_NAMESPACE}/pods")["items"]
        living = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return [pod["spec"]["nodeName"] for pod in living if pod["spec"].get("nodeName")]

    cluster.until(bound, "demo-app is bound", 120)
    return bound()[0]


def _labels(cluster: Cluster, node: str) -> Mapping[str, str]:
    prefix = "telemetry.aware.scheduling.scheduling-policy/"
    labels: Mapping[str, str] = cluster.api.call("GET", f"/api/v1/nodes/{node}")["metadata"]["labels"]
    return {key.removeprefix(prefix): value for key, value in labels.items() if key.startswith(prefix)}


def _is_marked(cluster: Cluster, node: str) -> bool:
    labels = cluster.api.call("GET", f"/api/v1/nodes/{node}")["metadata"]["labels"]
    return bool(labels.get("scheduling-policy") == "violating")


def _advertise(cluster: Cluster, node: str, there: bool = True) -> None:
    """The resource that demo-app asks for; Telemetry Aware Scheduling has kube-scheduler ignore it."""
    amounts = {"telemetry/scheduling": "100" if there else None}
    status = {"status": {"capacity": amounts, "allocatable": amounts}}
    cluster.api.call("PATCH", f"/api/v1/nodes/{node}/status", status)


def _serve_metric(metric: Mapping[str, int]) -> ThreadingHTTPServer:
    """An exporter of node_metric, as the node exporter's text files are in the original demo."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = "".join(f'node_metric{{node="{node}"}} {value}\n' for node, value in metric.items())
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((CONTROL_PLANE, 9100), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _prometheus(folder: Path) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 2s}\nscrape_configs:\n- job_name: health\n  static_configs:\n"
        f"  - targets: ['{CONTROL_PLANE}:9100']\n"
    )
    places = [f"--storage.tsdb.path={folder}/data", f"--web.listen-address={CONTROL_PLANE}:9090"]
    with (folder / "log").open("wb") as log:
        command = ["prometheus", f"--config.file={config}", *places]
        return subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=die_with_parent)
