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
from leadsman.decision.inputs import DecisionInputs, SourceRow, WorkloadIndex
from leadsman.decision.policy import Policy
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.planning.moves.mover import MoveResult
from leadsman.planning.replacement_plan import ReplacementSettings
from leadsman.sources.cluster.cluster_follower import ClusterFollower
from leadsman.state.snapshot import Snapshot
from tests.conftest import Until
from tests.controller.followed import KnownHolds, tools
from tests.controller.real_cluster import (
    SHOP,
    THREE_NODES,
    cancelled,
    controller_of,
    end_deleted_pods,
    granted_rights,
    only_on,
    owned_pod,
    real_cluster,
    scheduled,
    used_rights,
)
from tests.testbed.kube_apiserver import KubeApiServer

pytestmark = pytest.mark.slow

WITHIN_SECONDS = 60.0
DELAYS = {"edge-1": {"edge-2": 10.0, "edge-3": 15.0}}


class Matrix:
    """A DelayView of DELAYS."""

    source, read_at, fresh_until = "matrix", None, float("inf")
    nodes = frozenset({"edge-1", "edge-2", "edge-3"})

    def row(self, reference: str) -> SourceRow:
        return SourceRow(forward=DELAYS.get(reference, {}))


@pytest.fixture
def audit_log(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path, audit_log: Path) -> Iterator[KubeApiServer]:
    """Three nodes of 8Gi; the controller has the rights of its components and no other."""
    granted = (
        "self-healing/cluster-model",
        "self-healing/priority",
        "self-healing/backups",
        "self-healing/replacement",
    )
    with (
        real_cluster(kubernetes_binaries, tmp_path, *granted, audit_log=audit_log) as one,
        scheduled(kubernetes_binaries, tmp_path, one),
    ):
        yield one


def pod(name: str, bound_ms: int, *nodes: str) -> dict[str, Any]:
    """Of a ReplicaSet of its own, bound to edge-1; kube-scheduler may put it on `nodes`."""
    return owned_pod(name, name[:4], "6Gi", {"delay_edge-1": str(bound_ms)}, affinity=only_on(*nodes))


class Story:
    """Re-placement that runs, a kubelet that ends what is being deleted, and an owner that makes req1 again."""

    def __init__(self, cluster: KubeApiServer, client: ApiClient, recorder: EventWriter) -> None:
        self.cluster, self.follower = cluster, ClusterFollower(client)
        self.held_at_eviction: list[str] = []
        given = tools(
            client,
            recorder,
            lambda: DecisionInputs(
                Snapshot(), Policy(), 100.0, workloads=WorkloadIndex({}, 100.0), delay_views=(Matrix(),)
            ),
        )
        settings = ReplacementSettings(hold_seconds=0.0)
        healed = KnownHolds(given, SelfHealingSettings(replacement=settings), dict)
        healed.follower = self.follower
        self.replacement = Replacement(given, healed, settings)

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
            await asyncio.to_thread(end_deleted_pods, self.cluster)
            await asyncio.sleep(0.1)


async def test_req3_gets_the_room_of_req1_which_lands_within_its_own_bound_by_the_component_s_rights_and_no_other(
    cluster: KubeApiServer, audit_log: Path, until: Until
) -> None:
    async with controller_of(cluster) as (client, recorder):
        story = Story(cluster, client, recorder)
        tasks = [asyncio.create_task(story.follower.run())]
        try:
            req1 = pod("req1", 25, *THREE_NODES)
            req1["spec"]["nodeName"] = "edge-1"
            await asyncio.to_thread(cluster.call, "POST", SHOP, req1)
            await until(lambda: story.nodes().get("req1") == "edge-1")
            await asyncio.to_thread(cluster.call, "POST", SHOP, pod("req3", 1, "edge-1"))
            await until(lambda: story.nodes().get("req3") == "")
            tasks.append(asyncio.create_task(story.run()))
            await until(lambda: bool(story.replacement.ended), WITHIN_SECONDS)
            assert story.replacement.ended == {MoveResult.REPLACED: 1}
            assert story.held_at_eviction[0] == "edge-1"
            assert story.held_at_eviction[1] in ("edge-2", "edge-3")
            assert story.nodes()["req3"] == "edge-1"
            assert story.nodes()["req1-new"] in ("edge-2", "edge-3")
            await until(lambda: not any(name.startswith("hold-") for name in story.nodes()), WITHIN_SECONDS)
        finally:
            await cancelled(*tasks)
    of_others = {*granted_rights("self-healing/cluster-model"), ("create", "configmaps", "leadsman")}
    evicted = {("create", "pods/eviction", "shop")}  # granted for the whole cluster
    used, granted = used_rights(audit_log) - of_others, granted_rights("self-healing/replacement")
    assert granted - used == {("create", "pods/eviction", "")}
    assert used - granted == evicted
