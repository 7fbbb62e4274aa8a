"""On a real kube-apiserver, where KUBEBUILDER_ASSETS names one: what is left after an uninstall is nothing."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadsman.cli.main import main
from tests.daemonset.conftest import IN_ORDER, MANIFESTS, PROFILES, kustomize
from tests.testbed.kube_apiserver import KubeApiServer

pytestmark = pytest.mark.slow

KEPT = "kept-by-somebody-else"
WITHOUT_OTHER_CRDS = [*PROFILES["self-healing"], *(name for name in IN_ORDER if name != "prometheus")]

SECRET = """
apiVersion: v1
kind: Secret
metadata: {name: leadsman-extender-tls, namespace: leadsman, labels: {app.kubernetes.io/part-of: leadsman}}
"""

Kubectl = Callable[..., str]


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[KubeApiServer]:
    if shutil.which("kubectl") is None:
        pytest.skip("apt-get install kubernetes-client")
    with KubeApiServer(kubernetes_binaries, tmp_path / "kubernetes") as one:
        yield one


@pytest.fixture
def kubectl(cluster: KubeApiServer) -> Kubectl:
    def run(*words: str, text: str | None = None) -> str:
        command = ["kubectl", f"--kubeconfig={cluster.kubeconfig()}", *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """A folder of every component whose kinds this API server has, and of none: `all` and `none`."""
    shutil.copytree(MANIFESTS, tmp_path / "daemonset")
    kustomize(tmp_path / "all", WITHOUT_OTHER_CRDS)
    kustomize(tmp_path / "none", [])
    return tmp_path


def left(cluster: KubeApiServer, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["uninstall", f"--kubeconfig={cluster.kubeconfig()}", *more])
    return code, capsys.readouterr().out


def test_objects_of_a_component_that_was_taken_out_go_by_keep(
    cluster: KubeApiServer, kubectl: Kubectl, overlay: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl("apply", "--server-side", "-k", str(overlay / "all"))
    kubectl("apply", "-f", "-", text=SECRET)
    kept = tmp_path / "kept.yaml"
    kept.write_text(kubectl("kustomize", str(overlay / "none")))
    kubectl("apply", "--server-side", "--force-conflicts", "-f", str(kept))

    code, listed = left(cluster, capsys, f"--keep={kept}")
    assert code == 1
    assert "leadsman-controller" in listed
    assert "leadsman-extender " not in listed
    assert left(cluster, capsys, f"--keep={kept}", "--delete", "--crd")[0] == 0
    deployed = {(o["kind"], o["metadata"]["name"]) for o in yaml.safe_load_all(kept.read_text())}
    assert set(search(kubectl, "-l", "app.kubernetes.io/managed-by=kustomize")) == {
        f"{kind}/{name}" for kind, name in deployed
    }
    assert "Secret/leadsman-extender-tls" in search(kubectl)


def test_after_delete_and_uninstall_nothing_of_ours_is_in_any_kind_of_object(
    cluster: KubeApiServer, kubectl: Kubectl, overlay: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl("apply", "--server-side", "-k", str(overlay / "all"))
    main(["certs", "create", f"--dir={tmp_path / 'certs'}"])
    capsys.readouterr()
    main(["certs", "secrets", f"--dir={tmp_path / 'certs'}"])
    kubectl("apply", "-f", "-", text=capsys.readouterr().out)
    leave_what_processes_write(cluster)

    kubectl("delete", "--wait=false", "--ignore-not-found", "-k", str(overlay / "all"))
    code, listed = left(cluster, capsys)
    assert code == 1
    assert "leadsman-scheduler-tls" in listed
    assert "condition LeadsmanUnreachable" in listed
    assert cluster.call("GET", "/api/v1/namespaces/kube-system/secrets/leadsman-scheduler-tls")

    left(cluster, capsys, "--delete", "--crd")
    assert search(kubectl) == []
    node = cluster.call("GET", "/api/v1/nodes/n1")
    assert KEPT in node["metadata"]["annotations"]
    assert KEPT in node["metadata"]["labels"]
    assert [taint["key"] for taint in node["spec"]["taints"]] == [KEPT]
    assert [each["type"] for each in node["status"]["conditions"]] == ["Ready"]


def leave_what_processes_write(cluster: KubeApiServer) -> None:
    owned = '{"telemetry.policy.example/hot": "x"}'
    annotations = {
        "leadsman.dev/telemetry-labels": owned,
        "leadsman.dev/retried-at": "2026-01-01T00:00:00Z",
        KEPT: "yes",
    }
    taints = [{"key": key, "effect": "NoSchedule"} for key in ("leadsman.dev/unreachable", KEPT)]
    metadata = {"name": "n1", "annotations": annotations, "labels": {KEPT: "yes"}}
    cluster.call("POST", "/api/v1/nodes", {"metadata": metadata, "spec": {"taints": taints}})
    conditions = [{"type": name, "status": "True"} for name in ("Ready", "LeadsmanUnreachable")]
    cluster.call("PATCH", "/api/v1/nodes/n1/status", {"status": {"conditions": conditions}})
    lease = {"metadata": {"name": "leadsman-controller"}}
    cluster.call("POST", "/apis/coordination.k8s.io/v1/namespaces/leadsman/leases", lease)
    cluster.call("POST", "/api/v1/namespaces/leadsman/configmaps", {"metadata": {"name": "leadsman-self-healing"}})
    cluster.call("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": KEPT}})


NO_MANAGERS = {"managedFields": None}


def search(kubectl: Kubectl, *more: str) -> list[str]:
    """Every object whose name or YAML has our name, in every kind; namespaces on their way out hold nothing."""
    kinds = kubectl("api-resources", "--verbs=list,delete", "-o", "name").split()
    found = kubectl("get", ",".join(kinds), "--all-namespaces", "--ignore-not-found", "-o", "json", *more)
    items: list[dict[str, Any]] = json.loads(found)["items"] if found.strip() else []
    leaving = {each["metadata"]["name"] for each in items if "deletionTimestamp" in each["metadata"]}
    ours = [each for each in items if "leadsman" in json.dumps(each | {"metadata": each["metadata"] | NO_MANAGERS})]
    # No controller-manager runs here that would empty a namespace: all in it goes with it.
    left = [each for each in ours if not {each["metadata"].get("namespace"), each["metadata"]["name"]} & leaving]
    return [f"{each['kind']}/{each['metadata']['name']}" for each in left]
