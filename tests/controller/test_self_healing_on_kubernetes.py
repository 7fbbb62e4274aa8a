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
from tests.controller.followed import EDGES, PLACEHOLDERS, inputs_of, tools
from tests.controller.real_cluster import SHOP, controller_of, granted_rights, owned_pod, real_cluster, used_rights
from tests.controller.test_self_healing import near, verdict
from tests.testbed.background import running
from tests.testbed.kube_apiserver import KubeApiServer
from tests.waiting import until

pytestmark = pytest.mark.slow

ROLES = ("self-healing/cluster-model", "self-healing/backups", "self-healing/failover")


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[KubeApiServer]:
    """With the roles of the components that self-healing needs, and no other."""
    with real_cluster(kubernetes_binaries, tmp_path, "self-healing/priority", "controller/rbac", *ROLES) as one:
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
    cluster: KubeApiServer, tmp_path: Path
) -> None:
    put_web(cluster, "web-1")
    view, verdicts = near(*EDGES), {name: verdict(name) for name in EDGES}
    async with controller_of(cluster) as (client, recorder):
        settings = SelfHealingSettings(enabled=True, budget=RecoveryBudget())
        healing = SelfHealing(tools(client, recorder, lambda: inputs_of(view)), settings, lambda: verdicts)

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

        async with running(healing.cluster.run()):
            await until(lambda: healing.cluster.loaded)
            await covered(1)
            put_web(cluster, "web-2", memory="2Gi")
            await covered(2)
            cluster.call("DELETE", f"{SHOP}/web-2", {"gracePeriodSeconds": 0})
            await covered(1)  # a placeholder is made smaller, or goes
            verdicts["edge-1"], view = verdict("edge-1", NodeHealth.DEAD), near(*EDGES[1:])
            await step()
            taints = cluster.call("GET", "/api/v1/nodes/edge-1")["spec"]["taints"]
            assert [taint["key"] for taint in taints] == [UNREACHABLE_TAINT]
            await until(lambda: healing.cluster.current.nodes["edge-1"].taints)
            await step()
            pod = cluster.call("GET", f"{SHOP}/web-1")
            assert "deletionTimestamp" in pod["metadata"]
            assert pod["metadata"]["deletionGracePeriodSeconds"] == 1
    of_controller = {("get", "nodes", ""), ("patch", "nodes", "")}
    deleted = {("delete", "pods", "shop")}  # granted for the whole cluster
    resized = {("patch", "pods/resize", "leadsman-placeholders")}
    used, granted = used_rights(tmp_path), granted_rights(*ROLES)
    assert used - of_controller - deleted <= granted
    assert granted - used - resized == {("delete", "pods", "")}
