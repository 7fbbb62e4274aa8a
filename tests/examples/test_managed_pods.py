"""The admission policy of examples/managed-pods.yaml on a real API server."""

import shutil
import subprocess
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadsman.cli.scheduler_config import MANAGED_RESOURCE
from leadsman.kube import names
from tests.testbed.kube_apiserver import KubeApiServer

pytestmark = pytest.mark.slow

FILE = Path(__file__).parents[2] / "examples/managed-pods.yaml"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PATHS = {
    "MutatingAdmissionPolicy": f"{ADMISSION}/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": f"{ADMISSION}/mutatingadmissionpolicybindings",
}
FIRST_MINOR = 36
"""Of Kubernetes 1.N, which has the API as v1."""

ATTEMPTS = 600
"""Pods that are created before the policy must be in effect; the API server follows policies by a watch."""

Resources = Mapping[str, Mapping[str, str]]
CreatePod = Callable[..., Resources]


@pytest.fixture(scope="module")
def api(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiServer]:
    with KubeApiServer(kubernetes_binaries, tmp_path_factory.mktemp("examples") / "kubernetes") as one:
        yield one


@pytest.fixture(scope="module")
def create_pod(api: KubeApiServer) -> CreatePod:
    """create_pod(labels={…}, resources={…}): what the pod's container asks for, once the API server has taken it."""
    if int(api.call("GET", "/version")["minor"]) < FIRST_MINOR:
        with pytest.raises(urllib.error.HTTPError, match="404"):
            apply_policy(api)
        pytest.skip(f"this KUBEBUILDER_ASSETS: the admission policy needs Kubernetes 1.{FIRST_MINOR}")
    apply_policy(api)

    def create(resources: Any = None, **metadata: Any) -> Resources:
        container = {"name": "main", "image": "none", "resources": resources or {}}
        body = {"metadata": {"generateName": "p-", **metadata}, "spec": {"containers": [container]}}
        made = api.call("POST", "/api/v1/namespaces/default/pods", body)
        return dict(made["spec"]["containers"][0]["resources"])

    assert any(create(labels={"delay_n1": "5"}) for _ in range(ATTEMPTS)), "the policy is not in effect"
    return create


def apply_policy(api: KubeApiServer) -> None:
    for each in yaml.safe_load_all(FILE.read_text()):
        api.call("POST", PATHS[each["kind"]], each)


REQUESTED = {MANAGED_RESOURCE["name"]: "1"}


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {f"{names.DELAY_LABEL_PREFIX}n1": "5"}},
        {"labels": {names.POLICY_LABEL: "scheduling-policy"}},
        {"annotations": {names.DELAY_ANNOTATION: "n1: 5"}},
    ],
)
def test_a_pod_that_asks_leadsman_requests_the_resource(create_pod: CreatePod, metadata: Any) -> None:
    assert create_pod(**metadata) == {"requests": REQUESTED, "limits": REQUESTED}


def test_what_the_pod_requests_beside_it_stays(create_pod: CreatePod) -> None:
    asked = {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}
    resources = create_pod(asked, labels={"delay_n1": "5"})
    assert resources["requests"] == {"cpu": "1", "memory": "1Gi"} | REQUESTED
    assert resources["limits"] == {"memory": "1Gi"} | REQUESTED


@pytest.mark.parametrize("metadata", [{}, {"labels": {"app": "web"}, "annotations": {"note": "delay_n1"}}])
def test_a_pod_that_asks_nothing_of_leadsman_stays_as_it_is(create_pod: CreatePod, metadata: Any) -> None:
    assert create_pod(**metadata) == {}


# A real API server takes each object of examples/, where KUBEBUILDER_ASSETS names one. Nothing is kept.

ROOT = Path(__file__).parents[2]
CRD = ROOT / "daemonset/components/telemetry/crd.yaml"
FILES = sorted((ROOT / "examples").rglob("workloads/*.yaml")) + sorted((ROOT / "examples/telemetry/policies").iterdir())

Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def kubectl(api: KubeApiServer) -> Kubectl:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl: apt-get install kubernetes-client")
    config = f"--kubeconfig={api.kubeconfig()}"

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(["kubectl", config, *words], capture_output=True, text=True, check=False)

    assert run("create", "namespace", "shop").returncode == 0
    assert run("apply", "-f", str(CRD)).returncode == 0
    established = run("wait", "--for=condition=established", "--timeout=60s", "-f", str(CRD))
    assert established.returncode == 0, established.stderr
    return run


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_is_taken_and_no_field_is_unknown(path: Path, kubectl: Kubectl) -> None:
    done = kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(path))
    assert done.returncode == 0, done.stderr
    assert "(server dry run)" in done.stdout
