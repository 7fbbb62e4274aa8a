"""`leadsman configure-scheduler` on configurations that hold extenders already, and what a real kube-scheduler says."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from leadsman.cli import main
from tests.leadsman.cli.conftest import kubeconfig

GROUP = "kubescheduler.config.k8s.io"

TAS = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: /etc/kubernetes/scheduler.conf
extenders:
  - urlPrefix: "https://tas-service.telemetry-aware-scheduling.svc.cluster.local:9001"
    prioritizeVerb: "scheduler/prioritize"
    filterVerb: "scheduler/filter"
    weight: 1
    enableHTTPS: true
    managedResources:
      - name: "telemetry/scheduling"
        ignoredByScheduler: true
    ignorable: true
    tlsConfig:
      insecure: false
      certFile: "/host/certs/client.crt"
      keyFile: "/host/certs/client.key"
"""
"""Telemetry Aware Scheduling's deploy/extender-configuration/scheduler-config.yaml, byte for byte but its version."""

GAS = """\
  - urlPrefix: "https://gas-service.default.svc.cluster.local:9001"
    filterVerb: "scheduler/filter"
    bindVerb: "scheduler/bind"
    weight: 1
    enableHTTPS: true
    managedResources:
      - name: "gpu.intel.com/i915"
        ignoredByScheduler: false
    ignorable: true
    nodeCacheCapable: true
"""
"""GPU Aware Scheduling's, which its documents put beside it."""

MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: kube-scheduler, namespace: kube-system}
spec:
  containers:
  - command:
    - kube-scheduler
    - --config=FILE
    - --leader-elect=true
    image: registry.k8s.io/kube-scheduler:v1.36.0
    name: kube-scheduler
    volumeMounts:
    - mountPath: FILE
      name: schedulerconfig
      readOnly: true
    - mountPath: /host/certs
      name: certdir
  dnsPolicy: ClusterFirstWithHostNet
  hostNetwork: true
  volumes:
  - hostPath:
      path: FILE
    name: schedulerconfig
  - hostPath:
      path: /etc/certs
    name: certdir
"""
"""What configure-scheduler.sh of Telemetry Aware Scheduling makes of kubeadm's, as far as it matters here."""


@pytest.fixture
def configure(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """configure(file, *flags) → exit code, stdout, stderr."""

    def called(file, *flags):
        folders = ["--certs", str(tmp_path / "leadsman"), "--backups", str(tmp_path / "backup"), "--elsewhere"]
        extender = ["--extender", "https://10.96.0.17:9001"]
        code = main.main(["configure-scheduler", str(file), *extender, *folders, *flags])
        return (code, *capsys.readouterr())

    return called


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a configuration may be written."""
    return tmp_path / "scheduler-config.yaml"


@pytest.fixture
def kube_scheduler_says(kubernetes_binaries: Path, tmp_path: Path):
    """kube_scheduler_says(file) → why a real kube-scheduler does not start with it; "": it does.

    It asks no API server: it writes down the configuration that it would run with.
    """
    (tmp_path / "scheduler.conf").write_text(kubeconfig("http://127.0.0.1:1"))

    def started(file):
        tried = tmp_path / "tried.yaml"
        text = file.read_text().replace("/etc/kubernetes/scheduler.conf", str(tmp_path / "scheduler.conf"))
        # Their files are on the scheduler's machine.
        tried.write_text(re.sub(r".*(caFile|certFile|keyFile):.*\n", "", text))
        flags = [f"--config={tried}", f"--write-config-to={tmp_path / 'run-with.yaml'}", "--secure-port=0"]
        done = subprocess.run(
            [kubernetes_binaries / "kube-scheduler", *flags, "--authentication-skip-lookup"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.stderr if done.returncode else ""

    return started


def test_tas_is_replaced_as_its_own_script_set_it_up(configure, file: Path, tmp_path: Path) -> None:
    """docs/telemetry-policies.md, step 2: the manifest and the configuration that configure-scheduler.sh leaves."""
    manifest, before = tmp_path / "kube-scheduler.yaml", (TAS, MANIFEST.replace("FILE", str(file)))
    file.write_text(before[0])
    manifest.write_text(before[1])
    code, shown, _ = configure(manifest, "--managed")
    assert code == 0
    (entry,) = yaml.safe_load(file.read_text())["extenders"]
    assert entry["urlPrefix"] == "https://10.96.0.17:9001"
    assert entry["managedResources"] == [{"name": "telemetry/scheduling", "ignoredByScheduler": True}]
    (line,) = [line for line in shown.splitlines() if "tas-service" in line and not line.startswith(("-", "+", " "))]
    assert "replaced" in line
    assert "--undo" in line
    assert configure(manifest, "--managed")[:2] == (0, "nothing to do: the scheduler already asks the extender\n")
    assert configure(manifest, "--undo")[0] == 0
    assert (file.read_text(), manifest.read_text()) == before


def test_pods_that_request_the_resource_would_wait_without_their_extender(configure, file: Path) -> None:
    """Without an entry that has kube-scheduler ignore the resource, no node offers it."""
    file.write_text(TAS)
    code, _, said = configure(file)
    assert code == 1
    assert "--managed" in said
    assert "tas-service" in said
    assert file.read_text() == TAS


PLAIN = f"apiVersion: {GROUP}/v1\nkind: KubeSchedulerConfiguration\n"
REFUSED = {
    "two binders": (TAS + GAS + GAS.replace("i915", "xe"), "two extenders bind pods: extenders.1, extenders.2"),
    "a resource twice": (TAS + GAS + GAS.replace("bindVerb", "preemptVerb"), "manages gpu.intel.com/i915"),
    "no weight": (PLAIN + 'extenders: [{urlPrefix: "http://a", prioritizeVerb: p}]\n', "extenders.0.weight"),
    "no domain": (PLAIN + 'extenders: [{urlPrefix: "http://a", managedResources: [{name: gpu}]}]\n', "got gpu"),
}
"""What kube-scheduler does not start with, and what we say of it."""


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_what_kube_scheduler_would_refuse_is_refused_and_nothing_written(
    configure, file: Path, text, said: str
) -> None:
    file.write_text(text)
    code, _, error = configure(file, "--managed")
    assert code == 1
    assert said in error
    assert error.count("\n") == 1
    assert file.read_text() == text


def older(version):
    """TAS's configuration as its documents have it, of v1beta2, with what v1 writes otherwise."""
    return TAS.replace("/v1\n", f"/{version}\n") + (
        "healthzBindAddress: 0.0.0.0:0 # v1 has none\n"
        "profiles:\n"
        "- schedulerName: default-scheduler\n"
        "  pluginConfig:\n"
        "  - name: InterPodAffinity\n"
        "    args:\n"
        f"      apiVersion: {GROUP}/{version}\n"
        "      kind: InterPodAffinityArgs\n"
        "      hardPodAffinityWeight: 100\n"
        "metricsBindAddress: ''\n"
    )


@pytest.mark.parametrize("version", ["v1beta2", "v1beta3"])
def test_older_versions_become_v1(configure, file: Path, version: str) -> None:
    file.write_text(older(version))
    code, shown, _ = configure(file, "--managed")
    assert code == 0
    made = yaml.safe_load(file.read_text())
    assert made["apiVersion"] == f"{GROUP}/v1"
    assert made["profiles"][0]["pluginConfig"][0]["args"] == {
        "apiVersion": f"{GROUP}/v1",
        "kind": "InterPodAffinityArgs",
        "hardPodAffinityWeight": 100,
    }
    assert f"-apiVersion: {GROUP}/{version}\n" in shown
    assert "-metricsBindAddress: ''\n" in shown
    assert configure(file, "--undo")[0] == 0
    assert file.read_text() == older(version)


@pytest.mark.parametrize("text", [TAS, TAS + GAS, older("v1beta2"), older("v1beta3")])
def test_a_real_kube_scheduler_starts_with_what_is_written(configure, file: Path, kube_scheduler_says, text) -> None:
    file.write_text(text)
    assert configure(file, "--managed")[0] == 0
    assert kube_scheduler_says(file) == ""


@pytest.mark.parametrize("text", [*(text for text, _ in REFUSED.values()), older("v1beta2")])
def test_a_real_kube_scheduler_refuses_what_we_do_not_write(file: Path, kube_scheduler_says, text) -> None:
    file.write_text(text)
    assert kube_scheduler_says(file) != ""
