"""The CRD and the policies on a real kube-apiserver, where KUBEBUILDER_ASSETS names one."""

import asyncio
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leadsman.decision.telemetry.taspolicy import PolicyKey, build_status
from leadsman.kube import access
from leadsman.kube.client import ApiClient
from leadsman.sources.telemetry.telemetry_sources import TASPOLICY_RESOURCE, TasPolicyFollower
from tests.testbed.kube_apiserver import KubeApiServer

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
COMPONENT = ROOT / "daemonset/components/telemetry"
DOCUMENTED = ROOT / "tests/data/taspolicies"
NAMESPACE = "health-metric-demo"
READER = "system:serviceaccount:leadsman:leadsman-extender"

Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def cluster(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiServer]:
    if shutil.which("kubectl") is None:
        pytest.skip("apt-get install kubernetes-client")
    with KubeApiServer(
        kubernetes_binaries, tmp_path_factory.mktemp("cluster") / "kubernetes", users={READER: ()}
    ) as one:
        yield one


@pytest.fixture(scope="module")
def kubectl(cluster: KubeApiServer) -> Kubectl:
    """kubectl("get", "nodes"); input as `given`. With the CRD, the roles and the demo's namespace in place."""

    def called(*arguments: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        command = ["kubectl", f"--kubeconfig={cluster.kubeconfig()}", *arguments]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=60)

    for arguments in (
        ("apply", "-f", str(COMPONENT / "crd.yaml"), "-f", str(COMPONENT / "rbac.yaml")),
        ("wait", "--for=condition=Established", "crd/taspolicies.telemetry.intel.com", "--timeout=30s"),
        ("create", "namespace", NAMESPACE),
    ):
        done = called(*arguments)
        assert done.returncode == 0, done.stderr
    return called


def test_the_documented_policies_apply_unchanged(kubectl: Kubectl) -> None:
    done = kubectl("apply", "-f", str(DOCUMENTED))
    assert done.returncode == 0, done.stderr
    listed = kubectl("get", "tasp", "-n", NAMESPACE).stdout.splitlines()
    assert listed[0].split() == ["NAME", "ACCEPTED", "ACTIVE", "REASON", "AGE"]
    assert {line.split()[0] for line in listed[1:]} == {"labels", "multirules-policy", "scheduling-policy"}


@pytest.mark.parametrize(
    ("field", "value"),
    [("operator", "Above"), ("metricname", "a/b"), ("target", "ten"), ("labels", "a=b")],
)
def test_a_bad_rule_is_refused_by_the_api_server_by_its_path(kubectl: Kubectl, field: str, value: str) -> None:
    rule = {"metricname": "m", "operator": "Equals", field: value}
    rules = ", ".join(f"{name}: {text}" for name, text in rule.items())
    spec = f"spec: {{strategies: {{dontschedule: {{rules: [{{{rules}}}]}}}}}}"
    head = (
        f"apiVersion: telemetry.intel.com/v1alpha1\nkind: TASPolicy\nmetadata: {{name: bad, namespace: {NAMESPACE}}}\n"
    )
    done = kubectl("create", "-f", "-", given=head + spec)
    assert done.returncode != 0
    assert f"spec.strategies.dontschedule.rules[0].{field}" in done.stderr


async def test_the_extender_s_role_is_enough_to_follow_them(
    cluster: KubeApiServer, kubectl: Kubectl, until: Any
) -> None:
    assert kubectl("apply", "-f", str(DOCUMENTED)).returncode == 0
    key = PolicyKey(NAMESPACE, "scheduling-policy")
    async with ApiClient(access.access_from_url(cluster.url, cluster.ca_file, cluster.token_file(READER))) as client:
        follower = TasPolicyFollower(client)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(follower.reflector.run())
            await until(lambda: key in follower.current.used)
            assert follower.current.loaded
            patch = (
                '{"spec":{"strategies":{"dontschedule":{"rules":[{"metricname":"m","operator":"Equals","target":3}]}}}}'
            )
            kubectl("patch", "tasp", "scheduling-policy", "-n", NAMESPACE, "--type=merge", "-p", patch)
            changed = time.monotonic()
            await until(lambda: str(follower.current.used[key].dontschedule) == "m Equals 3")
            assert time.monotonic() - changed < 1.0
            kubectl("delete", "tasp", "scheduling-policy", "-n", NAMESPACE)
            await until(lambda: key not in follower.current.used)
            task.cancel()


async def test_a_status_is_accepted_and_shown(cluster: KubeApiServer, kubectl: Kubectl, until: Any) -> None:
    assert kubectl("apply", "-f", str(DOCUMENTED / "labels.yaml")).returncode == 0
    key = PolicyKey(NAMESPACE, "labels")
    async with ApiClient(access.access_from_url(cluster.url, cluster.ca_file, cluster.token_file())) as client:
        follower = TasPolicyFollower(client)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(follower.reflector.run())
            await until(lambda: key in follower.current.used)
            found = build_status(follower.current.used[key], None, None, "2026-01-01T00:00:00Z")
            await client.patch(TASPOLICY_RESOURCE.path(NAMESPACE, "labels", "status"), {"status": found})
            task.cancel()
    shown = kubectl("get", "tasp", "labels", "-n", NAMESPACE, "--no-headers").stdout.split()
    assert shown[1:4] == ["True", "True", "Active"]
