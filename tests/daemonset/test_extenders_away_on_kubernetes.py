"""What a real kube-scheduler does while no extender answers, for both values of `ignorable`: docs/deploying.md.

Where KUBEBUILDER_ASSETS names kube-apiserver and kube-scheduler. There is no kubelet: pods are bound and never run.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leadsman.testbed.etcd import free_ports
from tests.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing
from tests.testbed.kube_scheduler import KubeScheduler

pytestmark = pytest.mark.slow

PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events?fieldSelector=reason%3DFailedScheduling"
PATIENCE_SECONDS = 120.0


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[KubeApiServer]:
    """With one node."""
    with KubeApiServer(kubernetes_binaries, tmp_path / "kubernetes") as one:
        one.call("POST", "/api/v1/nodes", {"metadata": {"name": "edge-1"}})
        status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20"}}
        one.call("PATCH", "/api/v1/nodes/edge-1/status", {"status": status})
        yield one


@contextmanager
def scheduler(cluster: KubeApiServer, binaries: Path, folder: Path, port: int, ignorable: bool) -> Iterator[None]:
    """That asks an extender at this port."""
    asked = {
        "urlPrefix": f"http://127.0.0.1:{port}",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 5,
        "nodeCacheCapable": True,
        "ignorable": ignorable,
        "httpTimeout": "5s",
    }
    try:
        with KubeScheduler(binaries, folder, cluster, extenders=[asked]):
            yield
    except KubeApiServerMissing as missing:
        pytest.skip(str(missing))


@contextmanager
def extender(port: int, log: Path) -> Iterator[None]:
    """Ours, which knows nothing: its answers are neutral."""
    where = [f"--listen=127.0.0.1:{port}", f"--ops-listen=127.0.0.1:{free_ports(1)[0]}", "--api-listen=127.0.0.1:0"]
    where.append("--etcd=http://127.0.0.1:1")
    command = [sys.executable, "-m", "leadsman.cli.main", "extender", "--plain-http", *where]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def create_pod(cluster: KubeApiServer) -> None:
    spec = {"automountServiceAccountToken": False, "containers": [{"name": "main", "image": "none"}]}
    cluster.call("POST", PODS, {"metadata": {"name": "pod"}, "spec": spec})


def node_of_pod(cluster: KubeApiServer) -> str:
    return str(cluster.call("GET", f"{PODS}/pod")["spec"].get("nodeName", ""))


def until(true: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS:g} s: {what}"
        time.sleep(0.1)


def test_with_ignorable_true_pods_are_bound_while_all_extenders_are_away(
    cluster: KubeApiServer, kubernetes_binaries: Path, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    with scheduler(cluster, kubernetes_binaries, tmp_path / "scheduler", port, ignorable=True):
        create_pod(cluster)
        until(lambda: node_of_pod(cluster) == "edge-1", "the pod is bound")


def test_with_ignorable_false_pods_wait_for_an_extender_and_are_bound_once_it_answers(
    cluster: KubeApiServer, kubernetes_binaries: Path, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    with scheduler(cluster, kubernetes_binaries, tmp_path / "scheduler", port, ignorable=False):
        create_pod(cluster)
        until(lambda: cluster.call("GET", EVENTS)["items"], "kube-scheduler says why the pod is not bound")
        assert str(port) in cluster.call("GET", EVENTS)["items"][0]["message"]
        assert not node_of_pod(cluster)
        with extender(port, tmp_path / "extender.log"):
            until(lambda: node_of_pod(cluster) == "edge-1", "the pod is bound once the extender answers")
