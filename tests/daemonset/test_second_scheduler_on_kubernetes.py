"""The component second-scheduler, with its own rights and configuration, beside a real API server and extender."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from leadsman.testbed.etcd import Etcd, free_ports
from tests.daemonset.conftest import MANIFESTS, load
from tests.leadsman_process import LeadsmanProcess
from tests.testbed.kube_scheduler import KubeScheduler
from tests.testbed.paper_cluster import COLLECTIONS, PaperCluster, add_node, install
from tests.waiting import blocked_until

pytestmark = pytest.mark.slow

ACCOUNT = "system:serviceaccount:leadsman:leadsman-scheduler"
NAME = "leadsman-scheduler"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/leadsman/leases/{NAME}"


@pytest.fixture(scope="module")
def cluster(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PaperCluster]:
    """Two nodes, and the rights that the component gives."""
    with PaperCluster(kubernetes_binaries, tmp_path_factory.mktemp("second"), ACCOUNT) as one:
        one.api.call("POST", COLLECTIONS["Namespace"], {"metadata": {"name": "leadsman"}})
        install(one.api, "components/second-scheduler/rbac.yaml")
        for name in ("n1", "n2"):
            add_node(one.api, name, {"cpu": "4", "memory": "8Gi", "pods": "110"})
        yield one


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
            yield process.ready().url
        finally:
            process.kill()


@pytest.fixture(scope="module")
def scheduler(
    kubernetes_binaries: Path, cluster: PaperCluster, extender: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KubeScheduler]:
    """With the component's configuration, but for the extender's address and certificates."""
    (configuration,) = load(MANIFESTS / "components/second-scheduler/scheduler.yaml")
    for each in configuration["extenders"]:
        del each["tlsConfig"]
        each.update(urlPrefix=extender, enableHTTPS=False)
    folder = tmp_path_factory.mktemp("scheduler")
    with KubeScheduler(kubernetes_binaries, folder, cluster.api, configuration=configuration, user=ACCOUNT) as one:
        yield one


def create(cluster: PaperCluster, name: str, scheduler_name: str, **labels: str) -> None:
    cluster.pod(name, {"requests": {"cpu": "100m"}}, {"labels": labels}, schedulerName=scheduler_name)


def test_a_pod_that_names_it_is_bound_and_others_are_left_to_the_first(
    cluster: PaperCluster, scheduler: KubeScheduler
) -> None:
    create(cluster, "other", "default-scheduler")
    create(cluster, "ours", NAME)
    assert set(blocked_until(lambda: cluster.bound("ours"), "the pod is bound")) <= {"n1", "n2"}
    assert cluster.bound("other") == []
    assert "forbidden" not in scheduler.log.read_text().lower()
    assert cluster.api.call("GET", LEASE)["spec"]["holderIdentity"]


@pytest.mark.usefixtures("scheduler")
def test_leadsman_is_asked_about_each_node(cluster: PaperCluster) -> None:
    create(cluster, "bounded", NAME, delay_elsewhere="5")
    conditions = lambda: str([pod["status"].get("conditions") for pod in cluster.waiting("bounded")])  # noqa: E731
    blocked_until(lambda: "elsewhere" in conditions(), "the extender's refusal is on the pod")
