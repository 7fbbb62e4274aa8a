"""Room for a pending pod on a real kube-apiserver with a real kube-scheduler, where KUBEBUILDER_ASSETS names both.

The edge scheduler's req1 and req3. There is no kubelet and no controller-manager: the test removes the evicted pod and
makes the owner's new one. Of the bounds kube-scheduler knows nothing here: node affinity stands for the extender.
"""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from controller.moves import Replacement
from controller.settings import SelfHealingSettings
from leadsman.decision.inputs import DecisionInputs, SourceRow, WorkloadIndex
from leadsman.decision.policy import Policy
from leadsman.kube import kubeconfig
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.planning.moves.mover import MoveResult
from leadsman.planning.replacement_plan import ReplacementSettings
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.cluster.cluster_follower import ClusterFollower
from leadsman.state.snapshot import Snapshot
from tests.controller.followed import KnownHolds, tools
from tests.controller.rights import audit_flags, granted_rights, used_rights
from tests.controller.test_node_health_on_kubernetes import ACCOUNT, COMPONENTS
from tests.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing
from tests.testbed.kube_scheduler import KubeScheduler

if TYPE_CHECKING:
    from tests.conftest import Until

pytestmark = pytest.mark.slow

PODS = "/api/v1/namespaces/shop/pods"
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
    if shutil.which("kubectl") is None:
        pytest.skip("apt-get install kubernetes-client")
    users, flags = {ACCOUNT: ()}, audit_flags(audit_log)
    with KubeApiServer(kubernetes_binaries, tmp_path / "kubernetes", users=users, flags=flags) as one:
        for namespace in ("leadsman", "shop", "leadsman-placeholders"):
            one.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        for file in ("backups/cluster-model", "backups/priority", "backups/rbac", "replacement/rbac"):
            command = ["kubectl", f"--kubeconfig={one.kubeconfig()}", "apply", "-f", f"{COMPONENTS}/{file}.yaml"]
            subprocess.run(command, check=True, capture_output=True)
        for namespace in ("shop", "leadsman-placeholders"):
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
            one.call("POST", path, {"metadata": {"name": "default"}})
        for name in ("edge-1", "edge-2", "edge-3"):
            one.call("POST", "/api/v1/nodes", {"metadata": {"name": name}})
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "posting"}
            status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20"}, "conditions": [ready]}
            one.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})
        try:
            with KubeScheduler(kubernetes_binaries, tmp_path / "scheduler", one):
                yield one
        except KubeApiServerMissing as missing:
            pytest.skip(str(missing))


def pod(name: str, bound_ms: int, nodes: list[str], gib: int = 6) -> dict[str, Any]:
    """Of a ReplicaSet of its own, bound to edge-1; kube-scheduler may put it on `nodes`."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"rs-{name[:4]}", "controller": True}
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [each]}]} for each in nodes]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    resources = {"requests": {"cpu": "100m", "memory": f"{gib}Gi"}}
    return {
        "metadata": {"name": name, "labels": {"delay_edge-1": str(bound_ms)}, "ownerReferences": [owner]},
        "spec": {
            "affinity": affinity,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "none", "resources": resources}],
        },
    }


class Story:
    """Re-placement that runs, a kubelet that ends what is being deleted, and an owner that makes req1 again."""

    def __init__(self, cluster: KubeApiServer, client: ApiClient) -> None:
        self.cluster, self.follower = cluster, ClusterFollower(client)
        self.held_at_eviction: list[str] = []
        given = tools(
            client,
            EventWriter(client, TokenBucket(1e6, 1000), "controller-1"),
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
                await asyncio.to_thread(self.cluster.call, "POST", PODS, pod("req1-new", 25, ["edge-2", "edge-3"]))
            await asyncio.to_thread(self.end_pods)
            await asyncio.sleep(0.1)

    def end_pods(self) -> None:
        for each in self.cluster.call("GET", "/api/v1/pods")["items"]:
            meta = each["metadata"]
            if meta.get("deletionTimestamp"):
                path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
                self.cluster.call("DELETE", path, {"gracePeriodSeconds": 0})


async def test_req3_gets_the_room_of_req1_which_lands_within_its_own_bound_by_the_component_s_rights_and_no_other(
    cluster: KubeApiServer, audit_log: Path, until: "Until"
) -> None:
    async with ApiClient(kubeconfig.read(cluster.kubeconfig(ACCOUNT))) as client:
        story = Story(cluster, client)
        tasks = [asyncio.create_task(story.follower.run())]
        try:
            req1 = pod("req1", 25, ["edge-1", "edge-2", "edge-3"])
            req1["spec"]["nodeName"] = "edge-1"
            await asyncio.to_thread(cluster.call, "POST", PODS, req1)
            await until(lambda: story.nodes().get("req1") == "edge-1")
            await asyncio.to_thread(cluster.call, "POST", PODS, pod("req3", 1, ["edge-1"]))
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
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    of_others = {*granted_rights("backups/cluster-model"), ("create", "configmaps", "leadsman")}
    evicted = {("create", "pods/eviction", "shop")}  # granted for the whole cluster
    used, granted = used_rights(audit_log) - of_others, granted_rights("replacement/rbac")
    assert granted - used == {("create", "pods/eviction", "")}
    assert used - granted == evicted
