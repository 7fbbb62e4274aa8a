"""Room for a pending pod on a real kube-apiserver with a real kube-scheduler, where KUBEBUILDER_ASSETS names both.

The edge scheduler's req1 and req3. There is no kubelet and no controller-manager: the test removes the evicted pod and
makes the owner's new one. Of the bounds kube-scheduler knows nothing here: node affinity stands for the extender.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.moves import Replacement
from controller.settings import SelfHealingSettings
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.planning.moves.mover import MoveResult
from leadsman.planning.replacement_plan import ReplacementSettings
from tests.controller.followed import EDGES, KnownHolds, delays, inputs_of, tools
from tests.controller.real_cluster import SHOP, controller_of, granted_rights, owned_pod, real_cluster, used_rights
from tests.testbed.background import running
from tests.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing
from tests.testbed.kube_scheduler import KubeScheduler
from tests.waiting import until

pytestmark = pytest.mark.slow

DELAYS = delays((0, 10, 15), (10, 0, 50), (15, 50, 0))
GRANTED = ("cluster-model", "priority", "backups", "replacement")


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[KubeApiServer]:
    """Three nodes of 8Gi; the controller has the rights of its components and no other."""
    with real_cluster(kubernetes_binaries, tmp_path, *(f"self-healing/{file}" for file in GRANTED)) as one:
        try:
            with KubeScheduler(kubernetes_binaries, tmp_path / "scheduler", one):
                yield one
        except KubeApiServerMissing as missing:
            pytest.skip(str(missing))


def pod(name: str, bound_ms: int, *nodes: str) -> dict[str, Any]:
    """Of a ReplicaSet of its own, bound to edge-1; kube-scheduler may put it on `nodes`."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [each]}]} for each in nodes]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    return owned_pod(name, name[:4], "6Gi", {"delay_edge-1": str(bound_ms)}, affinity=affinity)


class Story:
    """Re-placement that runs, a kubelet that ends what is being deleted, and an owner that makes req1 again."""

    def __init__(self, cluster: KubeApiServer, client: ApiClient, recorder: EventWriter) -> None:
        self.cluster, self.held_at_eviction = cluster, list[str]()
        settings = ReplacementSettings(hold_seconds=0.0)
        given = tools(client, recorder, lambda: inputs_of(DELAYS))
        healed = KnownHolds(given, SelfHealingSettings(replacement=settings), dict)
        self.follower, self.replacement = healed.follower, Replacement(given, healed, settings)

    def nodes(self) -> dict[str, str]:
        """Pod → node, as the follower has it."""
        pods = self.follower.current.pods.values() if self.follower.current else ()
        return {pod.name: pod.node for pod in pods}

    async def run(self) -> None:
        while True:
            await self.replacement.turn()
            if self.replacement.actions.results["EvictPod", "done"] and not self.held_at_eviction:
                self.held_at_eviction = sorted(node for name, node in self.nodes().items() if name.startswith("hold-"))
                await asyncio.to_thread(self.cluster.call, "POST", SHOP, pod("req1-new", 25, "edge-2", "edge-3"))
            await asyncio.to_thread(self.end_deleted_pods)
            await asyncio.sleep(0.1)

    def end_deleted_pods(self) -> None:
        """As their kubelets do."""
        for each in self.cluster.call("GET", "/api/v1/pods")["items"]:
            if "deletionTimestamp" in each["metadata"]:
                path = f"/api/v1/namespaces/{each['metadata']['namespace']}/pods/{each['metadata']['name']}"
                self.cluster.call("DELETE", path, {"gracePeriodSeconds": 0})


async def test_req3_gets_the_room_of_req1_which_lands_within_its_own_bound_by_the_component_s_rights_and_no_other(
    cluster: KubeApiServer, tmp_path: Path
) -> None:
    async with controller_of(cluster) as (client, recorder):
        story = Story(cluster, client, recorder)
        async with running(story.follower.run()):
            req1 = pod("req1", 25, *EDGES)
            req1["spec"]["nodeName"] = "edge-1"
            await asyncio.to_thread(cluster.call, "POST", SHOP, req1)
            await until(lambda: story.nodes().get("req1") == "edge-1")
            await asyncio.to_thread(cluster.call, "POST", SHOP, pod("req3", 1, "edge-1"))
            await until(lambda: story.nodes().get("req3") == "")
            async with running(story.run()):
                await until(lambda: bool(story.replacement.ended))
                assert story.replacement.ended == {MoveResult.REPLACED: 1}
                assert story.held_at_eviction[0] == "edge-1"
                assert story.held_at_eviction[1] in ("edge-2", "edge-3")
                assert story.nodes()["req3"] == "edge-1"
                assert story.nodes()["req1-new"] in ("edge-2", "edge-3")
                await until(lambda: not any(name.startswith("hold-") for name in story.nodes()))
    of_others = {*granted_rights("self-healing/cluster-model"), ("create", "configmaps", "leadsman")}
    evicted = {("create", "pods/eviction", "shop")}  # granted for the whole cluster
    used, granted = used_rights(tmp_path) - of_others, granted_rights("self-healing/replacement")
    assert granted - used == {("create", "pods/eviction", "")}
    assert used - granted == evicted
