"""From `helm install` with the chart's own CA to `leadsman uninstall`, on a real kube-apiserver.

Where KUBEBUILDER_ASSETS names one. No kubelet runs: the test runs the job's command, with the rights of its account.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leadsman.cli.certs_actions import ETCD_CA_SECRET
from leadsman.cli.main import main
from tests.daemonset.conftest import CHART, EVERY_SETTING
from tests.leadsman.cli.uninstalling.test_uninstall_on_kubernetes import Kubectl, kubectl, search
from tests.testbed.kube_apiserver import KubeApiServer
from tests.waiting import blocked_until

pytestmark = pytest.mark.slow

ACCOUNT = "system:serviceaccount:leadsman:leadsman-certificates"
JOB = "/apis/batch/v1/namespaces/leadsman/jobs/leadsman-certificates"
OF_THE_JOB = ("job", "role", "rolebinding", "serviceaccount")
SETTINGS = [each for each in EVERY_SETTING if "serviceMonitor" not in each]
"""Without the kinds of Prometheus' operator, which this API server does not have."""
PATIENCE_SECONDS = 120.0

MOMENT = "2026-01-01T00:00:00Z"
COMPLETE = {
    "startTime": MOMENT,
    "completionTime": MOMENT,
    "succeeded": 1,
    "conditions": [
        {"type": name, "status": "True", "lastProbeTime": MOMENT, "lastTransitionTime": MOMENT}
        for name in ("SuccessCriteriaMet", "Complete")
    ],
}
"""As the job controller writes it."""

__all__ = ["kubectl"]


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[KubeApiServer]:
    with KubeApiServer(kubernetes_binaries, tmp_path / "kubernetes", users={ACCOUNT: ()}) as one:
        yield one


@pytest.fixture
def installed(helm: str, cluster: KubeApiServer) -> None:
    """A release of the chart with everything set."""
    given = [part for setting in (*SETTINGS, "certificates.mode=job") for part in ("--set", setting)]
    with subprocess.Popen(
        [*release(helm, "install", cluster), str(CHART), "--create-namespace", "--timeout=300s", *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        (container,) = job(cluster)["spec"]["template"]["spec"]["containers"]
        assert main([*container["args"], f"--kubeconfig={cluster.kubeconfig(ACCOUNT)}"]) == 0
        cluster.call("PATCH", f"{JOB}/status", {"status": COMPLETE})
        printed, _ = process.communicate()
    assert process.returncode == 0, printed


def job(cluster: KubeApiServer) -> dict[str, Any]:
    """Once Helm made it."""
    found = lambda: cluster.call("GET", JOB.rpartition("/")[0])["items"]  # noqa: E731
    (one,) = blocked_until(found, "the job", PATIENCE_SECONDS)
    return dict(one)


def release(helm: str, verb: str, cluster: KubeApiServer) -> list[str]:
    return [helm, verb, "leadsman", "--namespace=leadsman", f"--kubeconfig={cluster.kubeconfig()}"]


@pytest.mark.usefixtures("installed")
def test_the_job_makes_the_certificates_and_goes_and_an_uninstall_leaves_an_empty_namespace(
    helm: str, cluster: KubeApiServer, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    left_of_the_job = kubectl("-n", "leadsman", "get", ",".join(OF_THE_JOB), "--ignore-not-found", "-o", "name")
    assert "certificates" not in left_of_the_job
    secrets = {"leadsman-ca", "leadsman-extender-tls", "leadsman-scheduler-tls", ETCD_CA_SECRET}
    made = kubectl("-n", "leadsman", "get", "secrets", "-o", "name").replace("secret/", "").split()
    assert secrets <= {*made}

    subprocess.run(release(helm, "uninstall", cluster), capture_output=True, check=True)
    main(["uninstall", f"--kubeconfig={cluster.kubeconfig()}", "--delete", "--crd"])
    assert "leadsman-ca" in capsys.readouterr().out
    assert search(kubectl) == ["Namespace/leadsman"]
