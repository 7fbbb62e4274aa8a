"""With the component's own rights on a real kube-apiserver, where KUBEBUILDER_ASSETS names one."""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from controller.node_health import NodeConditions, NodeLeases
from leadsman.planning.failover.node_verdict import (
    NodeHealth,
    NodeVerdict,
    Signal,
    Signals,
    Timeline,
    Truth,
    VerdictReason,
)
from leadsman.runtime.token_bucket import TokenBucket
from tests.controller.followed import tools
from tests.controller.real_cluster import cancelled, controller_of, real_cluster
from tests.testbed.kube_apiserver import KubeApiServer

if TYPE_CHECKING:
    from tests.conftest import Until

pytestmark = pytest.mark.slow

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


@pytest.fixture(scope="module")
def cluster(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiServer]:
    """With the roles of the components controller and node-health, and no other."""
    folder = tmp_path_factory.mktemp("cluster")
    granted = ("controller/rbac", "self-healing/node-health")
    with real_cluster(kubernetes_binaries, folder, *granted, nodes=["n1"]) as one:
        yield one


def conditions(cluster: KubeApiServer) -> dict[str, str]:
    found: Any = cluster.call("GET", "/api/v1/nodes/n1")["status"]["conditions"]
    return {each["type"]: each["status"] for each in found}


async def test_the_condition_stands_beside_the_kubelet_s_and_is_taken_back(
    cluster: KubeApiServer, until: "Until"
) -> None:
    signal = Signal(Truth.TRUE, "lost")
    async with controller_of(cluster) as (client, recorder):
        writing = asyncio.create_task(recorder.run())
        uid = cluster.call("GET", "/api/v1/nodes/n1")["metadata"]["uid"]
        verdicts: dict[str, NodeVerdict] = {}
        publisher = NodeConditions(tools(client, recorder), lambda: verdicts, lambda _: uid, TokenBucket(100, 100))
        for state, reason, status in (
            (NodeHealth.DEAD, VerdictReason.DEAD, "True"),
            (NodeHealth.HEALTHY, VerdictReason.REACHABLE, "False"),
        ):
            signals = Signals(signal, signal, signal)
            verdicts["n1"] = NodeVerdict("n1", state, 0.0, reason, "who", signals, Timeline())
            await publisher.turn()
            assert conditions(cluster) == {"Ready": "True", "LeadsmanUnreachable": status}
        await until(lambda: recorder.written == 2)
        assert recorder.dropped == 0
        await cancelled(writing)
    described = ["kubectl", f"--kubeconfig={cluster.kubeconfig()}", "describe", "node", "n1"]
    shown = await asyncio.to_thread(subprocess.run, described, check=True, capture_output=True, text=True)
    assert "NodeDead" in shown.stdout
    assert "NodeReachable" in shown.stdout


async def test_leases_are_followed_and_confirmed(cluster: KubeApiServer, until: "Until") -> None:
    spec = {"holderIdentity": "n1", "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"}
    cluster.call("POST", LEASES, {"metadata": {"name": "n1"}, "spec": spec})
    async with controller_of(cluster) as (client, _):
        leases = NodeLeases(client, TokenBucket(100, 100), time.monotonic)
        task = asyncio.create_task(leases.reflector.run())
        await until(lambda: "n1" in leases.current)
        renewed = {"spec": {"renewTime": "2026-01-01T00:00:10.000000Z"}}
        await asyncio.to_thread(cluster.call, "PATCH", f"{LEASES}/n1", renewed)
        await until(lambda: not leases.current["n1"].is_new)
        await leases.confirm(["n1"])
        assert leases.current["n1"].confirmed_at is not None
        await cancelled(task)
