"""The component second-scheduler, with its own rights and configuration, beside a real API server and extender."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadsman.testbed.etcd import Etcd, free_ports
from tests.daemonset.conftest import MANIFESTS, Objects, load
from tests.leadsman_process import LeadsmanProcess
from tests.testbed.kube_apiserver import KubeApiServer
from tests.testbed.kube_scheduler import KubeScheduler
from tests.waiting import blocked_until

pytestmark = pytest.mark.slow

COMPONENT = MANIFESTS / "components/second-scheduler"
ACCOUNT = "system:serviceaccount:leadsman:leadsman-scheduler"
NAME = "leadsman-scheduler"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/leadsman/leases/{NAME}"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def cluster(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiServer]:
    """Two nodes, and the rights that the component gives."""
    folder = tmp_path_factory.mktemp("second") / "kubernetes"
    with KubeApiServer(kubernetes_binaries, folder, users={ACCOUNT: ("system:serviceaccounts",)}) as api:
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "leadsman"}})
        grant(api, load(COMPONENT / "rbac.yaml"))
        for name in ("n1", "n2"):
            room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
            api.call("POST", "/api/v1/nodes", {"metadata": {"name": name}, "status": {"allocatable": room}})
        yield api


def grant(api: KubeApiServer, objects: Objects) -> None:
    for each in objects:
        if each["kind"] != "ServiceAccount":
            namespace = each["metadata"].get("namespace")
            inside = f"/namespaces/{namespace}" if namespace else ""
            api.call("POST", f"{RBAC}{inside}/{each['kind'].lower()}s", each)


@pytest.fixture(scope="module")
def extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of one that knows no delays yet."""
    folder = tmp_path_factory.mktemp("extender")
    port, ops = free_ports(2)
    with Etcd(folder / "etcd") as etcd:
        flags = ["--listen", f"127.0.0.1:{port}", "--ops-listen", f"127.0.0.1:{ops}", "--plain-http"]
        url, ops_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{ops}"
        command = ["extender", *flags, "--api-listen=127.0.0.1:0", "--etcd", etcd.client_url]
        process = LeadsmanProcess(command, url, ops_url, folder / "extender.log")
        try:
            blocked_until(lambda: process.get("/readyz")[0] == 200, "the extender is ready")
            yield url
        finally:
            process.child.kill()
            process.child.wait()


@pytest.fixture(scope="module")
def scheduler(
    kubernetes_binaries: Path, cluster: KubeApiServer, extender: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KubeScheduler]:
    """With the component's configuration, but for the extender's address and certificates."""
    configuration = yaml.safe_load((COMPONENT / "scheduler.yaml").read_text())
    for each in configuration["extenders"]:
        del each["tlsConfig"]
        each.update(urlPrefix=extender, enableHTTPS=False)
    folder = tmp_path_factory.mktemp("scheduler")
    with KubeScheduler(kubernetes_binaries, folder, cluster, configuration=configuration, user=ACCOUNT) as one:
        yield one


def create(api: KubeApiServer, name: str, scheduler_name: str, labels: dict[str, str] | None = None) -> None:
    containers = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m"}}}]
    pod = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"schedulerName": scheduler_name, "containers": containers},
    }
    api.call("POST", "/api/v1/namespaces/default/pods", pod)


def pod(api: KubeApiServer, name: str) -> dict[str, Any]:
    return dict(api.call("GET", f"/api/v1/namespaces/default/pods/{name}"))


def refusal(api: KubeApiServer, name: str) -> str:
    conditions = pod(api, name)["status"].get("conditions", [])
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")


def test_a_pod_that_names_it_is_bound_and_others_are_left_to_the_first(
    cluster: KubeApiServer, scheduler: KubeScheduler
) -> None:
    create(cluster, "other", "default-scheduler")
    create(cluster, "ours", NAME)
    assert blocked_until(lambda: pod(cluster, "ours")["spec"].get("nodeName"), "the pod is bound") in ("n1", "n2")
    assert "nodeName" not in pod(cluster, "other")["spec"]
    assert "forbidden" not in scheduler.log.read_text().lower()
    assert cluster.call("GET", LEASE)["spec"]["holderIdentity"]


def test_leadsman_is_asked_about_each_node(cluster: KubeApiServer, scheduler: KubeScheduler) -> None:
    create(cluster, "bounded", NAME, {"delay_elsewhere": "5"})
    assert "elsewhere" in blocked_until(lambda: refusal(cluster, "bounded"), "the extender's refusal is on the pod")
