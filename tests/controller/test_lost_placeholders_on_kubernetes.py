"""Placeholders that go around our extender, on a real kube-apiserver with a real kube-scheduler that does not ask it.

Runs where KUBEBUILDER_ASSETS names both. There is no kubelet: the test ends what is being deleted, and writes what a
kubelet writes when it evicts.
"""

import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.parts import SelfHealing
from controller.settings import SelfHealingSettings
from leadsman.kube import kubeconfig
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.planning.backups.placeholders import CoverageState
from leadsman.runtime.token_bucket import TokenBucket
from tests.controller.followed import tools
from tests.controller.test_node_health_on_kubernetes import ACCOUNT, COMPONENTS
from tests.controller.test_self_healing import NODES, AllNear, inputs_from, verdict
from tests.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing
from tests.testbed.kube_scheduler import KubeScheduler

pytestmark = pytest.mark.slow

PLACEHOLDERS, SHOP = "/api/v1/namespaces/leadsman-placeholders/pods", "/api/v1/namespaces/shop/pods"
ROLES = ("backups/cluster-model", "backups/rbac")
SEEN_AND_REPLANNED_SECONDS = 10.0
"""The promise: from the loss until the room is held again, by a placeholder that kube-scheduler bound."""


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[KubeApiServer]:
    """Three nodes of 8Gi, a bounded pod on edge-1, and a kube-scheduler that preempts and has no extender."""
    if shutil.which("kubectl") is None:
        pytest.skip("apt-get install kubernetes-client")
    with KubeApiServer(kubernetes_binaries, tmp_path / "kubernetes", users={ACCOUNT: ()}) as one:
        for namespace in ("leadsman", "shop"):
            one.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        files = ["backups/namespace", "backups/priority", "controller/rbac", *ROLES]
        for file in files:
            command = ["kubectl", f"--kubeconfig={one.kubeconfig()}", "apply", "-f", f"{COMPONENTS}/{file}.yaml"]
            subprocess.run(command, check=True, capture_output=True)
        high = {"metadata": {"name": "high"}, "value": 1000}
        one.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", high)
        for name in NODES:
            one.call("POST", "/api/v1/nodes", {"metadata": {"name": name}})
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "posting"}
            status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20"}, "conditions": [ready]}
            one.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})
        put_pod(one, "web", "edge-1", "1Gi", labels={"delay_edge-1": "10"})
        try:
            with KubeScheduler(kubernetes_binaries, tmp_path / "scheduler", one, preempts=True):
                yield one
        except KubeApiServerMissing as missing:
            pytest.skip(str(missing))


def put_pod(cluster: KubeApiServer, name: str, node: str, memory: str, **metadata: Any) -> None:
    """On the node when it has labels, as our bounded pod; else of priority 1000, for kube-scheduler to put there."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"rs-{name}", "controller": True}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m", "memory": memory}}}
    placed = {"nodeName": node} if metadata else {"affinity": affinity, "priorityClassName": "high"}
    body = {"metadata": {"name": name, "ownerReferences": [owner], **metadata}}
    cluster.call("POST", SHOP, {**body, "spec": {**placed, "containers": [container]}})


class Keeping:
    """Backups that are kept, as a controller that leads keeps them: a step a second."""

    def __init__(self, cluster: KubeApiServer, client: ApiClient) -> None:
        self.cluster = cluster
        self.recorder = EventWriter(client, TokenBucket(100, 100), "test")
        verdicts = {name: verdict(name) for name in NODES}
        settings = SelfHealingSettings(enabled=True)
        inputs = inputs_from(AllNear())
        self.healing = SelfHealing(tools(client, self.recorder, lambda: inputs), settings, lambda: verdicts)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.healing.cluster.run())
            group.create_task(self.recorder.run())
            group.create_task(self._step())
            group.create_task(self._end_pods())

    def holder(self) -> tuple[str, str] | None:
        """Node and UID of the placeholder that covers the pod; None: it is not covered."""
        coverage = list(self.healing.backups.status.coverage.values())
        if not coverage or coverage[0].state is not CoverageState.COVERED or not self.healing.cluster.current:
            return None
        pods = self.healing.cluster.current.pods.values()
        return next(
            (
                (pod.node, pod.uid)
                for pod in pods
                if pod.namespace == "leadsman-placeholders" and pod.node == coverage[0].node and not pod.terminating
            ),
            None,
        )

    def events(self) -> list[tuple[str, str]]:
        """Node and note of each Event about a lost placeholder, as the API server has them."""
        listed = self.cluster.call("GET", "/apis/events.k8s.io/v1/events")["items"]
        return [(each["regarding"]["name"], each["note"]) for each in listed if each["reason"] == "PlaceholderLost"]

    async def _step(self) -> None:
        while True:
            await self.healing.backups.turn()
            await asyncio.sleep(1.0)

    async def _end_pods(self) -> None:
        while True:
            for pod in (await asyncio.to_thread(self.cluster.call, "GET", "/api/v1/pods"))["items"]:
                if "deletionTimestamp" in pod["metadata"]:
                    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
                    await asyncio.to_thread(self.cluster.call, "DELETE", path, {"gracePeriodSeconds": 0})
            await asyncio.sleep(0.2)


@asynccontextmanager
async def keeping(cluster: KubeApiServer) -> AsyncIterator[Keeping]:
    """From the moment when the pod is covered."""
    async with ApiClient(kubeconfig.read(cluster.kubeconfig(ACCOUNT))) as client:
        one = Keeping(cluster, client)
        task = asyncio.create_task(one.run())
        try:
            await seen(lambda: one.holder() is not None, 30.0)
            yield one
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def seen(condition: Callable[[], bool], within_seconds: float) -> None:
    async with asyncio.timeout(within_seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for is a state of others
            await asyncio.sleep(0.05)


def preempt(cluster: KubeApiServer, node: str) -> None:
    """A pod of priority 1000 that fits beside nothing."""
    put_pod(cluster, "greedy", node, "7.5Gi")


def evict(cluster: KubeApiServer, node: str) -> None:
    """As kubelet does under pressure: the pod ends, and its object stays."""
    for pod in cluster.call("GET", PLACEHOLDERS)["items"]:
        if pod["spec"].get("nodeName") == node:
            status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
            cluster.call("PATCH", f"{PLACEHOLDERS}/{pod['metadata']['name']}/status", {"status": status})


def delete(cluster: KubeApiServer, node: str) -> None:
    for pod in cluster.call("GET", PLACEHOLDERS)["items"]:
        if pod["spec"].get("nodeName") == node:
            cluster.call("DELETE", f"{PLACEHOLDERS}/{pod['metadata']['name']}")


@pytest.mark.parametrize("lose", [preempt, evict, delete])
async def test_a_placeholder_that_is_lost_around_the_extender_is_seen_and_replaced_within_10_seconds(
    cluster: KubeApiServer, lose: Callable[[KubeApiServer, str], None]
) -> None:
    async with keeping(cluster) as one:
        before = one.holder()
        assert before is not None
        began = time.monotonic()
        await asyncio.to_thread(lose, cluster, before[0])
        await seen(lambda: one.healing.backups.lost == 1, SEEN_AND_REPLANNED_SECONDS)
        counted = time.monotonic() - began
        await seen(lambda: one.holder() not in (None, before), SEEN_AND_REPLANNED_SECONDS - counted)
        sys.stdout.write(f"{lose.__name__}: counted {counted:.1f} s, covered {time.monotonic() - began:.1f} s after\n")
        await seen(lambda: bool(one.events()), 10.0)
        [(node, note)] = one.events()
        assert node == before[0]
        assert "is gone, and not by this controller" in note
        left = [pod["metadata"]["uid"] for pod in cluster.call("GET", PLACEHOLDERS)["items"]]
        assert before[1] not in left, "nothing of it stays"
        after = one.holder()
        assert after is not None
        assert (after[0] != before[0]) is (lose is preempt), "the backup moves only where its room is taken"
