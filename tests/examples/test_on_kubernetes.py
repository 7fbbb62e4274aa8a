"""A real API server takes each object of examples/, where KUBEBUILDER_ASSETS names one. Nothing is kept."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.testbed.kube_apiserver import KubeApiServer

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CRD = ROOT / "daemonset/components/telemetry/crd.yaml"
FILES = sorted((ROOT / "examples").rglob("workloads/*.yaml")) + sorted((ROOT / "examples/telemetry/policies").iterdir())

Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def kubectl(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl: apt-get install kubernetes-client")
    with KubeApiServer(kubernetes_binaries, tmp_path_factory.mktemp("examples") / "kubernetes") as api:
        config = f"--kubeconfig={api.kubeconfig()}"

        def run(*words: str) -> "subprocess.CompletedProcess[str]":
            return subprocess.run(["kubectl", config, *words], capture_output=True, text=True, check=False)

        assert run("create", "namespace", "shop").returncode == 0
        assert run("apply", "-f", str(CRD)).returncode == 0
        established = run("wait", "--for=condition=established", "--timeout=60s", "-f", str(CRD))
        assert established.returncode == 0, established.stderr
        yield run


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_is_taken_and_no_field_is_unknown(path: Path, kubectl: Kubectl) -> None:
    done = kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(path))
    assert done.returncode == 0, done.stderr
    assert "(server dry run)" in done.stdout
