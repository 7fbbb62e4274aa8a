"""The CRD and the policies on a real kube-apiserver, where KUBEBUILDER_ASSETS names one."""

import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from leadsman.decision.telemetry.taspolicy import PolicyKey, build_status
from leadsman.kube import access
from leadsman.kube.client import ApiClient
from leadsman.sources.telemetry.telemetry_sources import TASPOLICY_RESOURCE, TasPolicyFollower
from tests.testbed.background import running
from tests.testbed.kube_apiserver import ADMIN_USER, KubeApiServer
from tests.testbed.paper_cluster import EXTENDER
from tests.waiting import until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
COMPONENT = ROOT / "daemonset/components/telemetry"
DOCUMENTED = ROOT / "tests/data/taspolicies"
NAMESPACE = "health-metric-demo"

Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def cluster(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiServer]:
    if shutil.which("kubectl") is None:
        pytest.skip("apt-get install kubernetes-client")
    with KubeApiServer(
        kubernetes_binaries, tmp_path_factory.mktemp("cluster") / "kubernetes", users={EXTENDER: ()}
    ) as one:
        yield one


@pytest.fixture(scope="module")
def kubectl(cluster: KubeApiServer) -> Kubectl:
    """kubectl("get", "nodes"), with the CRD, the roles and the demo's namespace in place."""

    def called(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = ["kubectl", f"--kubeconfig={cluster.kubeconfig()}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    for arguments in (
        ("apply", "-f", str(COMPONENT / "crd.yaml"), "-f", str(COMPONENT / "rbac.yaml")),
        ("wait", "--for=condition=Established", "crd/taspolicies.telemetry.intel.com", "--timeout=30s"),
        ("create", "namespace", NAMESPACE),
    ):
        done = called(*arguments)
        assert done.returncode == 0, done.stderr
    return called


@asynccontextmanager
async def following(
    cluster: KubeApiServer, user: str = ADMIN_USER
) -> AsyncIterator[tuple[ApiClient, TasPolicyFollower]]:
    async with ApiClient(access.access_from_url(cluster.url, cluster.ca_file, cluster.token_file(user))) as client:
        follower = TasPolicyFollower(client)
        async with running(follower.reflector.run()):
            yield client, follower


async def test_the_extender_s_role_is_enough_to_follow_them(cluster: KubeApiServer, kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", str(DOCUMENTED)).returncode == 0
    key = PolicyKey(NAMESPACE, "scheduling-policy")
    async with following(cluster, EXTENDER) as (_, follower):
        await until(lambda: key in follower.current.used)
        assert follower.current.loaded
        patch = '{"spec":{"strategies":{"dontschedule":{"rules":[{"metricname":"m","operator":"Equals","target":3}]}}}}'
        kubectl("patch", "tasp", "scheduling-policy", "-n", NAMESPACE, "--type=merge", "-p", patch)
        changed = time.monotonic()
        await until(lambda: str(follower.current.used[key].dontschedule) == "m Equals 3")
        assert time.monotonic() - changed < 1.0
        kubectl("delete", "tasp", "scheduling-policy", "-n", NAMESPACE)
        await until(lambda: key not in follower.current.used)


async def test_a_status_is_accepted_and_shown(cluster: KubeApiServer, kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", str(DOCUMENTED / "labels.yaml")).returncode == 0
    key = PolicyKey(NAMESPACE, "labels")
    async with following(cluster) as (client, follower):
        await until(lambda: key in follower.current.used)
        found = build_status(follower.current.used[key], None, None, "2026-01-01T00:00:00Z")
        await client.patch(TASPOLICY_RESOURCE.path(NAMESPACE, "labels", "status"), {"status": found})
    shown = kubectl("get", "tasp", "labels", "-n", NAMESPACE, "--no-headers").stdout.split()
    assert shown[1:4] == ["True", "True", "Active"]
