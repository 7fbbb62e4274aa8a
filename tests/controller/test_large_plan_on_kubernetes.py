"""A plan of several moves of two Deployments on a real kube-apiserver, kube-scheduler and kube-controller-manager,
where KUBEBUILDER_ASSETS names them. The controller is killed before each of its writes, and an eviction is refused.

The test is the kubelets: it runs pods, ends them, and renews the nodes' Leases. Owners and budgets are those of the
controller-manager.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from leadsman.cli.main import main
from leadsman.kube import kubeconfig
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import TooManyRequests
from leadsman.published.documents import encode
from leadsman.published.move_plan import MovePlan, PlannedMove, PlanOrigin
from leadsman.published.moves import Outcome, RunState
from tests.controller.test_move_plans_on_kubernetes import (
    ACCOUNT,
    NODES,
    OPERATOR,
    PODS,
    Dies,
    add_node,
    api_server,
    new_process,
    progress_of,
    scheduling,
)
from tests.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing
from tests.testbed.kube_controller_manager import KubeControllerManager

pytestmark = pytest.mark.slow

WITHIN_SECONDS = 500.0
HOLD_ROOM_SECONDS = 200.0
"""So many deaths take their time."""
REPLICAS = 2
BUDGETS = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[KubeApiServer]:
    """With its owners and budgets, a scheduler that asks an extender, and one node."""
    with api_server(kubernetes_binaries, tmp_path) as one:
        try:
            with (
                KubeControllerManager(kubernetes_binaries, tmp_path / "manager", one),
                scheduling(kubernetes_binaries, one, tmp_path / "extender"),
            ):
                add_node(one, NODES[0])
                yield one
        except KubeApiServerMissing as missing:
            pytest.skip(str(missing))


class Kubelets:
    """Run what is bound, end what is deleted, and keep the nodes alive.

    fewest_ready: workload → the fewest ready pods that there were since it had all.
    """

    def __init__(self, cluster: KubeApiServer) -> None:
        self.cluster = cluster
        self.fewest_ready: dict[str, int] = {}

    def look(self) -> None:
        ready = Counter[str]()
        for pod in self.cluster.call("GET", "/api/v1/pods")["items"]:
            if pod["spec"].get("nodeName") and self._look_at(pod):
                ready[pod["metadata"]["labels"].get("app", "")] += 1
        for workload in ("web", "db"):
            if workload in self.fewest_ready or ready[workload] == REPLICAS:
                self.fewest_ready[workload] = min(ready[workload], self.fewest_ready.get(workload, REPLICAS))
        for node in self.cluster.call("GET", "/api/v1/nodes")["items"]:
            self._renew(node["metadata"]["name"])

    def _look_at(self, pod: dict[str, Any]) -> bool:
        """Whether the pod is ready after it."""
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        if "deletionTimestamp" in meta:
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
            self.cluster.call("DELETE", path, options)
            return False
        if pod["status"]["phase"] != "Running":
            conditions = [*pod["status"].get("conditions", []), {"type": "Ready", "status": "True"}]
            self.cluster.call("PATCH", f"{path}/status", {"status": {"phase": "Running", "conditions": conditions}})
        return True

    def _renew(self, node: str) -> None:
        spec = {"holderIdentity": node, "renewTime": datetime.now(UTC).isoformat().replace("+00:00", "Z")}
        try:
            self.cluster.call("PATCH", f"{LEASES}/{node}", {"spec": spec})
        except OSError:
            self.cluster.call("POST", LEASES, {"metadata": {"name": node}, "spec": spec})

    async def run(self) -> None:
        while True:
            with suppress(URLError, OSError):  # An object is gone meanwhile.
                await asyncio.to_thread(self.look)
            await asyncio.sleep(0.1)


class MortalClient(ApiClient):
    """Dies before every write once, and has db's budget tightened just before its first eviction is asked for.

    evicted: path of evictions → how many the API server did. refused: how many it refused with 429.
    """

    def __init__(self, cluster: KubeApiServer) -> None:
        super().__init__(kubeconfig.read(cluster.kubeconfig(ACCOUNT)))
        self.cluster, self.deaths, self.refused = cluster, 0, 0
        self.evicted: Counter[str] = Counter()
        self._spared = self._is_tight = False

    async def send(self, call: Any) -> Any:
        if call.method == "GET":
            return await super().send(call)
        self._spared = not self._spared
        if self._spared:
            self.deaths += 1
            raise Dies
        if not call.path.endswith("/eviction"):
            return await super().send(call)
        if "/db-" in call.path and not self._is_tight:
            self._is_tight = True
            await asyncio.to_thread(set_budget, self.cluster, "db", 0)
        try:
            answer = await super().send(call)
        except TooManyRequests:
            self.refused += 1
            await asyncio.to_thread(set_budget, self.cluster, "db", 1)
            raise
        self.evicted[call.path] += 1
        return answer


def set_budget(cluster: KubeApiServer, name: str, allowed: int) -> None:
    """Until the controller-manager says so."""
    cluster.call("PATCH", f"{BUDGETS}/{name}", {"spec": {"maxUnavailable": allowed}})
    wait_for(lambda: cluster.call("GET", f"{BUDGETS}/{name}")["status"].get("disruptionsAllowed") == allowed)


def wait_for(true: Any) -> None:
    deadline = time.monotonic() + WITHIN_SECONDS
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def deploy(cluster: KubeApiServer, name: str) -> None:
    """With a budget of one pod that may be away."""
    labels = {"app": name}
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "none", "resources": resources}],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template}
    cluster.call("POST", DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec})
    budget = {"selector": {"matchLabels": labels}, "maxUnavailable": 1}
    cluster.call("POST", BUDGETS, {"metadata": {"name": name}, "spec": budget})


def pods_by_workload(cluster: KubeApiServer) -> dict[str, list[dict[str, Any]]]:
    """Of those that run and are not being deleted."""
    found = defaultdict(list)
    for pod in cluster.call("GET", PODS)["items"]:
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]:
            found[pod["metadata"]["labels"]["app"]].append(pod)
    return found


def settled(cluster: KubeApiServer) -> bool:
    """Whether all pods run and each budget allows one to be away."""
    budgets = cluster.call("GET", BUDGETS)["items"]
    allowed = [each["status"].get("disruptionsAllowed") for each in budgets]
    return allowed == [1, 1] and all(len(pods_by_workload(cluster)[name]) == REPLICAS for name in ("web", "db"))


def planned(pod: dict[str, Any], node: str, uid: str) -> PlannedMove:
    meta = pod["metadata"]
    return PlannedMove(
        pod_uid=meta["uid"],
        namespace="shop",
        name=meta["name"],
        from_node=NODES[0],
        to_node=node,
        to_node_uid=uid,
        reason="maintenance",
    )


async def carry_out(client: MortalClient, plan: str) -> Any:
    """The progress of the plan once it has ended, under as many controllers as it takes."""
    while True:
        healing = new_process(client, HOLD_ROOM_SECONDS)
        following = asyncio.create_task(healing.cluster.run())
        try:
            while True:
                for keeper in healing.keepers:
                    await keeper.turn()
                progress = progress_of(healing)
                if progress and progress.plan == plan and progress.state not in (RunState.RUNNING, RunState.PAUSED):
                    return progress
                await asyncio.sleep(0.05)
        except Dies:
            pass
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def test_four_moves_of_two_deployments_survive_a_kill_before_each_write_and_refused_evictions(
    cluster: KubeApiServer, tmp_path: Path
) -> None:
    kubelets = Kubelets(cluster)
    running = asyncio.create_task(kubelets.run())
    try:
        for name in ("web", "db"):
            await asyncio.to_thread(deploy, cluster, name)
        await asyncio.to_thread(wait_for, lambda: settled(cluster))
        uids = {node: await asyncio.to_thread(add_node, cluster, node) for node in NODES[1:]}
        pods = pods_by_workload(cluster)
        ordered = []
        for at, pair in enumerate(zip(pods["web"], pods["db"], strict=True)):
            node = NODES[1 + at % 2]
            ordered += [planned(pod, node, uids[node]) for pod in pair]
        plan = MovePlan(origin=PlanOrigin.DRAIN, taken_at=time.time(), moves=tuple(ordered))
        (tmp_path / "plan.json").write_bytes(encode(plan))
        access = ["--kubeconfig", str(cluster.kubeconfig(OPERATOR))]
        assert await asyncio.to_thread(main, ["plan", "apply", str(tmp_path / "plan.json"), "--confirm", *access]) == 0
        async with MortalClient(cluster) as client, asyncio.timeout(WITHIN_SECONDS):
            progress = await carry_out(client, plan.id)
        await asyncio.to_thread(wait_for, lambda: settled(cluster))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert (progress.state, [each.outcome for each in progress.moves]) == (RunState.DONE, [Outcome.MOVED] * 4)
    assert [each.landed_on for each in progress.moves] == [move.to_node for move in ordered]
    assert client.deaths > 4 * len(ordered), "it was killed at each step of each move"
    assert client.refused >= 1, "the API server said 429"
    assert sorted(client.evicted.values()) == [1] * 4
    assert min(kubelets.fewest_ready.values()) >= REPLICAS - 1, "no more pods were away than budgets allow"
    after = [pod["spec"]["nodeName"] for each in pods_by_workload(cluster).values() for pod in each]
    assert Counter(after) == Counter(move.to_node for move in ordered)
    holding = cluster.call("GET", "/api/v1/namespaces/leadsman-placeholders/pods")["items"]
    assert all("deletionTimestamp" in each["metadata"] for each in holding), "no room is held any more"
