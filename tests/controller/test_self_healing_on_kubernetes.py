"""Self-healing with its components' own rights on a real kube-apiserver, where KUBEBUILDER_ASSETS names one.

The API server's audit log says which rights were used; they are compared with those that the components grant.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.run import SelfHealing
from controller.settings import SelfHealingSettings
from leadsman.planning.backups.placeholders import CoverageState
from leadsman.planning.failover.node_verdict import NodeHealth
from leadsman.planning.recovery_plan import UNREACHABLE_TAINT, RecoveryBudget
from tests.conftest import Until
from tests.controller.followed import tools
from tests.controller.real_cluster import (
    PLACEHOLDERS,
    SHOP,
    cancelled,
    controller_of,
    granted_rights,
    owned_pod,
    real_cluster,
    used_rights,
)
from tests.controller.test_self_healing import NODES, AllNear, inputs_from, verdict
from tests.testbed.kube_apiserver import KubeApiServer

pytestmark = pytest.mark.slow

ROLES = ("self-healing/cluster-model", "self-healing/backups", "self-healing/failover")


@pytest.fixture
def audit_log(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path, audit_log: Path) -> Iterator[KubeApiServer]:
    """With the roles of the components that self-healing needs, and no other; each request of ours in the audit log."""
    granted = ("self-healing/priority", "controller/rbac", *ROLES)
    with real_cluster(kubernetes_binaries, tmp_path, *granted, nodes=NODES, audit_log=audit_log) as one:
        yield one


def put_web(cluster: KubeApiServer, name: str, memory: str = "1Gi") -> None:
    """A bounded pod of a ReplicaSet on edge-1."""
    cluster.call("POST", SHOP, owned_pod(name, "web", memory, {"delay_edge-1": "10"}, nodeName="edge-1"))


def bind_placeholders(cluster: KubeApiServer) -> None:
    """As kube-scheduler does, by their required node affinity."""
    for pod in cluster.call("GET", PLACEHOLDERS)["items"]:
        if "nodeName" not in pod["spec"]:
            affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            [node] = affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"]
            name = pod["metadata"]["name"]
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            cluster.call("POST", f"{PLACEHOLDERS}/{name}/binding", {"metadata": {"name": name}, "target": target})


async def test_a_failover_uses_all_rights_that_its_components_grant_and_no_other(
    cluster: KubeApiServer, audit_log: Path, until: Until
) -> None:
    put_web(cluster, "web-1")
    view, verdicts = AllNear(), {name: verdict(name) for name in NODES}
    async with controller_of(cluster) as (client, recorder):
        settings = SelfHealingSettings(enabled=True, budget=RecoveryBudget())
        healing = SelfHealing(tools(client, recorder, lambda: inputs_from(view)), settings, lambda: verdicts)
        following = asyncio.create_task(healing.cluster.run())

        async def step() -> None:
            healing.backups.hurry()
            for keeper in healing.keepers:
                await keeper.turn()

        def states() -> set[CoverageState]:
            return {each.state for each in healing.backups.coverage.values()}

        async def covered(pods: int) -> None:
            """Steps, and binds, until so many pods are covered."""
            async with asyncio.timeout(30):
                while len(healing.backups.coverage) != pods or states() != {CoverageState.COVERED}:
                    await step()
                    await asyncio.to_thread(bind_placeholders, cluster)
                    await asyncio.sleep(0.05)

        await until(lambda: healing.cluster.loaded)
        await covered(1)
        put_web(cluster, "web-2", memory="2Gi")
        await covered(2)
        cluster.call("DELETE", f"{SHOP}/web-2", {"gracePeriodSeconds": 0})
        await covered(1)  # a placeholder is made smaller, or goes
        verdicts["edge-1"], view.nodes = verdict("edge-1", NodeHealth.DEAD), frozenset(NODES[1:])
        await step()
        assert [taint["key"] for taint in cluster.call("GET", "/api/v1/nodes/edge-1")["spec"]["taints"]] == [
            UNREACHABLE_TAINT
        ]
        await until(lambda: healing.cluster.current.nodes["edge-1"].taints)
        await step()
        pod = cluster.call("GET", f"{SHOP}/web-1")
        assert "deletionTimestamp" in pod["metadata"]
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 1
        await cancelled(following)
    of_controller = {("get", "nodes", ""), ("patch", "nodes", "")}
    deleted = {("delete", "pods", "shop")}  # granted for the whole cluster
    resized = {("patch", "pods/resize", "leadsman-placeholders")}
    used, granted = used_rights(audit_log), granted_rights(*ROLES)
    assert used - of_controller - deleted <= granted
    assert granted - used - resized == {("delete", "pods", "")}
