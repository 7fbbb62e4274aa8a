"""Placeholders that go around our extender, on a real kube-apiserver with a real kube-scheduler that does not ask it.

Runs where KUBEBUILDER_ASSETS names both. There is no kubelet: the test ends what is being deleted, and writes what a
kubelet writes when it evicts.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controller.parts import SelfHealing
from controller.settings import SelfHealingSettings
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.planning.backups.placeholders import CoverageState
from tests.controller.followed import tools
from tests.controller.real_cluster import (
    PLACEHOLDERS,
    SHOP,
    cancelled,
    controller_of,
    end_deleted_pods,
    only_on,
    owned_pod,
    real_cluster,
    scheduled,
)
from tests.controller.test_self_healing import NODES, AllNear, inputs_from, verdict
from tests.testbed.kube_apiserver import KubeApiServer

pytestmark = pytest.mark.slow

SEEN_AND_REPLANNED_SECONDS = 10.0
"""The promise: from the loss until the room is held again, by a placeholder that kube-scheduler bound."""


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[KubeApiServer]:
    """Three nodes of 8Gi, a bounded pod on edge-1, and a kube-scheduler that preempts and has no extender."""
    granted = ("self-healing/priority", "controller/rbac", "self-healing/cluster-model", "self-healing/backups")
    with real_cluster(kubernetes_binaries, tmp_path, *granted, nodes=NODES) as one:
        one.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 1000})
        one.call("POST", SHOP, owned_pod("web", labels={"delay_edge-1": "10"}, nodeName="edge-1"))
        with scheduled(kubernetes_binaries, tmp_path, one, preempts=True):
            yield one


class Keeping:
    """Backups that are kept, as a controller that leads keeps them: a step a second."""

    def __init__(self, cluster: KubeApiServer, client: ApiClient, recorder: EventWriter) -> None:
        self.cluster, self.recorder = cluster, recorder
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
            await asyncio.to_thread(end_deleted_pods, self.cluster)
            await asyncio.sleep(0.2)


@asynccontextmanager
async def keeping(cluster: KubeApiServer) -> AsyncIterator[Keeping]:
    """From the moment when the pod is covered."""
    async with controller_of(cluster) as (client, recorder):
        one = Keeping(cluster, client, recorder)
        task = asyncio.create_task(one.run())
        try:
            await seen(lambda: one.holder() is not None, 30.0)
            yield one
        finally:
            await cancelled(task)


async def seen(condition: Callable[[], bool], within_seconds: float) -> None:
    async with asyncio.timeout(within_seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for is a state of others
            await asyncio.sleep(0.05)


def preempt(cluster: KubeApiServer, node: str) -> None:
    """A pod of priority 1000 that fits beside nothing."""
    greedy = owned_pod("greedy", memory="7.5Gi", affinity=only_on(node), priorityClassName="high")
    cluster.call("POST", SHOP, greedy)


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
