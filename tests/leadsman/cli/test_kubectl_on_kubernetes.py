"""`kubectl leadsman`, started by a real kubectl, on a real API server where KUBEBUILDER_ASSETS names one.

No kubelet runs here: a server in its place notes what the API server asks of it, and refuses. What a forwarded port
answers is tried in test_extender_pages.py.
"""

import json
import os
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from leadsman.runtime.version import VERSION
from tests.testbed.certificates import CertificateAuthority
from tests.testbed.kube_apiserver import KubeApiServer

ROOT = Path(__file__).parents[3]
POD = "leadsman-extender-0"
STRANGER = "stranger"
AHEAD_SECONDS = 120
DONE = subprocess.CompletedProcess[str]
KubectlLeadsman = Callable[..., DONE]


def run_kubectl(*words: str) -> DONE:
    """A real kubectl that finds our plugin where it is installed."""
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(["kubectl", *words], capture_output=True, text=True, check=False, env=environ)


@pytest.fixture(autouse=True)
def needs_kubectl() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl: apt-get install kubernetes-client")


@pytest.mark.integration
def test_kubectl_finds_the_plugin() -> None:
    assert run_kubectl("leadsman", "--version").stdout.startswith("leadsman ")
    assert "/kubectl-leadsman" in run_kubectl("plugin", "list").stdout


class Kubelet(ThreadingHTTPServer):
    """Refuses what a kubelet would do. asked: what the API server asked of it."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Refusal)
        certificate, key = CertificateAuthority().issue("127.0.0.1").write(folder, "kubelet")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        self.socket = tls.wrap_socket(self.socket, server_side=True)


class _Refusal(BaseHTTPRequestHandler):
    def _refuse(self) -> None:
        server = self.server
        assert isinstance(server, Kubelet)
        server.asked.append(self.path)
        self.send_error(403, "this kubelet refuses")

    do_GET = do_POST = _refuse  # noqa: N815 the base class's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the base class's name
        return


@pytest.fixture(scope="module")
def kubelet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelet]:
    with Kubelet(tmp_path_factory.mktemp("kubelet")) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def api(
    kubernetes_binaries: Path, kubelet: Kubelet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KubeApiServer]:
    """With daemonset/base, one node whose clock is ahead, an agent on its network and an extender, both ready."""
    folder = tmp_path_factory.mktemp("plugin") / "kubernetes"
    with KubeApiServer(kubernetes_binaries, folder, users={STRANGER: ()}) as one:
        base = run_kubectl(f"--kubeconfig={one.kubeconfig()}", "apply", "-k", str(ROOT / "daemonset/base"))
        assert base.returncode == 0, base.stderr
        endpoint = {"kubeletEndpoint": {"Port": kubelet.server_port}}
        address = {"type": "InternalIP", "address": "127.0.0.1"}
        node_status = {**ready(), "addresses": [address], "daemonEndpoints": endpoint}
        one.call("POST", "/api/v1/nodes", {"metadata": {"name": "edge-1"}})
        one.call("PATCH", "/api/v1/nodes/edge-1/status", {"status": node_status})
        make_lease(one)
        privileged = {"pod-security.kubernetes.io/enforce": "privileged"}  # as the component hostnetwork has it
        one.call("PATCH", "/api/v1/namespaces/leadsman", {"metadata": {"labels": privileged}})
        make_pod(one, POD, "extender")
        make_pod(one, "leadsman-agent-0", "agent", host_network=True)
        yield one


def ready() -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": "True"}]}


def make_lease(api: KubeApiServer) -> None:
    renewed = (datetime.now(UTC) + timedelta(seconds=AHEAD_SECONDS)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    if not any(
        each["metadata"]["name"] == "kube-node-lease" for each in api.call("GET", "/api/v1/namespaces")["items"]
    ):
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "kube-node-lease"}})
    api.call("POST", leases, {"metadata": {"name": "edge-1"}, "spec": {"renewTime": renewed}})


def make_pod(
    api: KubeApiServer,
    name: str,
    component: str,
    *,
    host_network: bool = False,
) -> None:
    pods = "/api/v1/namespaces/leadsman/pods"
    labels = {"app.kubernetes.io/name": "leadsman", "app.kubernetes.io/component": component}
    container = {"name": component, "image": f"leadsman:{VERSION}"}
    spec = {"nodeName": "edge-1", "hostNetwork": host_network, "containers": [container]}
    api.call("POST", pods, {"metadata": {"name": name, "labels": labels}, "spec": spec})
    api.call("PATCH", f"{pods}/{name}/status", {"status": {"phase": "Running", **ready()}})


@pytest.fixture
def kubectl_leadsman(api: KubeApiServer) -> KubectlLeadsman:
    def run(*words: str, user: str = "admin") -> DONE:
        return run_kubectl("leadsman", *words, f"--kubeconfig={api.kubeconfig(user)}")

    return run


@pytest.mark.slow
def test_it_finds_the_extender_s_pod_and_asks_its_kubelet_for_the_port(
    kubectl_leadsman: KubectlLeadsman, kubelet: Kubelet
) -> None:
    done = kubectl_leadsman("nodes")
    assert done.returncode == 1
    assert f"kubectl port-forward to {POD}: " in done.stderr
    assert [path for path in kubelet.asked if urlsplit(path).path == f"/portForward/leadsman/{POD}"]


def findings(done: DONE) -> dict[tuple[str, str], str]:
    """(Check, status) → text; every one that is not ok says what to do."""
    every = json.loads(done.stdout)
    assert [each for each in every if each["status"] in ("error", "warning") and not each["what_to_do"]] == []
    return {(each["check"], each["status"]): each["text"] for each in every}


@pytest.mark.slow
def test_doctor_reads_version_nodes_clocks_and_rights_of_the_cluster(
    api: KubeApiServer, kubectl_leadsman: KubectlLeadsman
) -> None:
    done = kubectl_leadsman("doctor", "-o", "json")
    found = findings(done)
    assert done.returncode == 1
    assert found["kubernetes", "ok"] == api.call("GET", "/version")["gitVersion"]
    assert found["agents", "ok"] == "ready on all 1 ready nodes"
    assert found["extender", "warning"] == "1 ready of 2"
    assert found["rights", "ok"].startswith("all ")
    assert found["clocks", "error"].startswith("edge-1 is ")
    assert found["clocks", "error"].endswith(" s ahead of the API server")
    assert found["state", "error"].startswith(f"{POD}: kubectl port-forward to {POD}: ")
