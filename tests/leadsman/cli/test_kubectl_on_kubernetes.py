"""`kubectl leadsman`, started by a real kubectl, on a real API server where KUBEBUILDER_ASSETS names one.

No kubelet runs here: the extender's pod is found and its port is not. What a forwarded port answers is tried in
test_extender_pages.py.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from leadsman.runtime.version import VERSION
from tests.testbed.kube_apiserver import KubeApiServer

ROOT = Path(__file__).parents[3]
POD = "leadsman-extender-0"
AHEAD_SECONDS = 120
NAMESPACES = "/api/v1/namespaces"


def run_kubectl(*words: str) -> subprocess.CompletedProcess[str]:
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


@pytest.fixture(scope="module")
def api(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiServer]:
    """With daemonset/base, one node whose clock is ahead, an agent on its network and an extender, both ready."""
    folder = tmp_path_factory.mktemp("plugin") / "kubernetes"
    with KubeApiServer(kubernetes_binaries, folder) as one:
        base = run_kubectl(f"--kubeconfig={one.kubeconfig()}", "apply", "-k", str(ROOT / "daemonset/base"))
        assert base.returncode == 0, base.stderr
        one.call("POST", "/api/v1/nodes", {"metadata": {"name": "edge-1"}, "status": ready()})
        if "kube-node-lease" not in {each["metadata"]["name"] for each in one.call("GET", NAMESPACES)["items"]}:
            one.call("POST", NAMESPACES, {"metadata": {"name": "kube-node-lease"}})
        renewed = (datetime.now(UTC) + timedelta(seconds=AHEAD_SECONDS)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        one.call("POST", leases, {"metadata": {"name": "edge-1"}, "spec": {"renewTime": renewed}})
        privileged = {"pod-security.kubernetes.io/enforce": "privileged"}  # as the component hostnetwork has it
        one.call("PATCH", "/api/v1/namespaces/leadsman", {"metadata": {"labels": privileged}})
        make_pod(one, POD, "extender")
        make_pod(one, "leadsman-agent-0", "agent", host_network=True)
        yield one


def ready() -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": "True"}]}


def make_pod(api: KubeApiServer, name: str, component: str, *, host_network: bool = False) -> None:
    pods = "/api/v1/namespaces/leadsman/pods"
    labels = {"app.kubernetes.io/part-of": "leadsman", "app.kubernetes.io/component": component}
    container = {"name": component, "image": f"leadsman:{VERSION}"}
    spec = {"nodeName": "edge-1", "hostNetwork": host_network, "containers": [container]}
    api.call("POST", pods, {"metadata": {"name": name, "labels": labels}, "spec": spec})
    api.call("PATCH", f"{pods}/{name}/status", {"status": {"phase": "Running", **ready()}})


@pytest.mark.slow
def test_doctor_reads_version_nodes_clocks_and_rights_of_the_cluster(api: KubeApiServer) -> None:
    done = run_kubectl("leadsman", "doctor", "-o", "json", f"--kubeconfig={api.kubeconfig()}")
    every = json.loads(done.stdout)
    assert done.returncode == 1
    assert [each for each in every if each["status"] in ("error", "warning") and not each["what_to_do"]] == []
    found = {(each["check"], each["status"]): each["text"] for each in every}
    assert found["kubernetes", "ok"] == api.call("GET", "/version")["gitVersion"]
    assert found["agents", "ok"] == "ready on all 1 ready nodes"
    assert found["extender", "warning"] == "1 ready of 2"
    assert found["rights", "ok"].startswith("all ")
    assert found["clocks", "error"].startswith("edge-1 is ")
    assert found["clocks", "error"].endswith(" s ahead of the API server")
    assert found["state", "error"].startswith(f"{POD}: kubectl port-forward to {POD}: ")
