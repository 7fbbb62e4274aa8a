"""Two controllers as processes on a real kube-apiserver, where KUBEBUILDER_ASSETS names one."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leadsman.kube.names import OWNERSHIP_ANNOTATION
from leadsman.testbed.etcd import free_ports
from tests.controller.real_cluster import ACCOUNT, kubectl, real_cluster, until
from tests.testbed.kube_apiserver import KubeApiServer

pytestmark = pytest.mark.slow

MARKED = {
    "labels": {"gone": "violating", "kept": "x"},
    "annotations": {OWNERSHIP_ANNOTATION: json.dumps({"gone": "ns/gone"})},
}
"""As another controller left it; the policy is not there any more."""


@pytest.fixture(scope="module")
def cluster(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiServer]:
    """With the CRD and the controller's own role, which is all that the processes may use."""
    folder = tmp_path_factory.mktemp("cluster")
    with real_cluster(kubernetes_binaries, folder, "telemetry/crd", "controller/rbac", nodes=()) as one:
        kubectl(one, "wait", "--for=condition=Established", "crd/taspolicies.telemetry.intel.com", "--timeout=30s")
        yield one


@pytest.fixture
def start(cluster: KubeApiServer, tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """start(): a controller; all are gone after the test."""
    running = []

    def started() -> subprocess.Popen[bytes]:
        (port,) = free_ports(1)
        flags = ["--kubeconfig", str(cluster.kubeconfig(ACCOUNT)), "--listen", f"127.0.0.1:{port}"]
        command = [sys.executable, "-m", "leadsman.cli.main", "controller", *flags, "--etcd", "http://127.0.0.1:1"]
        with (tmp_path / f"{len(running)}.log").open("wb") as log:
            running.append(subprocess.Popen(command, stdout=log, stderr=log))
        return running[-1]

    yield started
    for process in running:
        process.kill()
        process.wait()
    for log in tmp_path.glob("*.log"):
        assert "Traceback" not in log.read_text(), log.read_text()
        assert "Forbidden" not in log.read_text(), log.read_text()


def holder(cluster: KubeApiServer) -> str:
    found = json.loads(kubectl(cluster, "get", "leases", "-n", "leadsman", "-o", "json"))["items"]
    return found[0]["spec"]["holderIdentity"] if found else ""


def marked_node(cluster: KubeApiServer, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **MARKED}}
    kubectl(cluster, "create", "-f", "-", given=json.dumps(body))


def marks(cluster: KubeApiServer, name: str) -> dict[str, str]:
    labels = json.loads(kubectl(cluster, "get", "node", name, "-o", "json"))["metadata"]["labels"]
    return {key: value for key, value in labels.items() if key in ("gone", "kept")}


def test_when_the_one_that_leads_is_killed_the_other_goes_on(cluster: KubeApiServer, start) -> None:
    marked_node(cluster, "n1")
    first = start()
    until(lambda: marks(cluster, "n1") == {"kept": "x"}, "the label of a policy that is gone removed")
    leader = holder(cluster)
    start()
    first.kill()
    first.wait()
    marked_node(cluster, "n2")
    until(lambda: marks(cluster, "n2") == {"kept": "x"}, "the other one acts")
    assert holder(cluster) not in ("", leader)


def conditions(cluster: KubeApiServer) -> dict[str, str]:
    found = json.loads(kubectl(cluster, "get", "tasp", "hot", "-n", "leadsman", "-o", "json"))
    return {each["type"]: each["status"] for each in found.get("status", {}).get("conditions", [])}
