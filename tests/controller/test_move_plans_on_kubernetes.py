"""A plan of several moves of two Deployments on a real kube-apiserver, kube-scheduler and kube-controller-manager,
where KUBEBUILDER_ASSETS names them. The controller is killed before each of its writes, and an eviction is refused.

The test is the kubelets: it runs pods, ends them, and renews the nodes' Leases. Owners and budgets are those of the
controller-manager.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from controller.run import SelfHealing
from controller.settings import SelfHealingSettings
from leadsman.cli.main import main
from leadsman.kube import kubeconfig
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import TooManyRequests
from leadsman.planning.failover.node_verdict import NodeHealth
from leadsman.planning.moves.plan_run import MovePlanLimits
from leadsman.planning.replacement_plan import ReplacementSettings
from leadsman.published.documents import encode
from leadsman.published.moves import MovePlan, Outcome, PlannedMove, PlanOrigin, RunState
from leadsman.testbed.etcd import Etcd, free_ports
from tests.controller.followed import EDGES, PLACEHOLDERS, event_writer, tools
from tests.controller.real_cluster import AMOUNTS, SHOP, owned_pod, real_cluster
from tests.controller.test_move_plans import Dies
from tests.controller.test_self_healing import verdict
from tests.failover.lease_renewer import renewed
from tests.leadsman_process import LeadsmanProcess
from tests.testbed.background import running
from tests.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing
from tests.testbed.kube_component import KubeControllerManager
from tests.testbed.kube_scheduler import KubeScheduler
from tests.testbed.paper_cluster import CONTROLLER, EXTENDER, add_node
from tests.waiting import blocked_until

pytestmark = pytest.mark.slow

WITHIN_SECONDS = 500.0
HOLD_ROOM_SECONDS = 200.0
"""So many deaths take their time."""
REPLICAS, LEASE_SECONDS = 2, 40
BUDGETS = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments"
OPERATOR = "operator"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[KubeApiServer]:
    """With its owners and budgets, a scheduler that asks an extender, and one node."""
    healing = (f"self-healing/{file}" for file in ("cluster-model", "backups", "extender", "priority"))
    users = (EXTENDER, OPERATOR)
    with real_cluster(kubernetes_binaries, tmp_path, "move-plans/rbac", *healing, nodes=EDGES[:1], users=users) as one:
        grant_operator(one)
        try:
            with (
                KubeControllerManager(kubernetes_binaries, tmp_path / "manager", one),
                scheduling(kubernetes_binaries, one, tmp_path / "extender"),
            ):
                yield one
        except KubeApiServerMissing as missing:
            pytest.skip(str(missing))


def grant_operator(cluster: KubeApiServer) -> None:
    """The rights that handing a plan over takes, by docs/moving-pods.md, and no other."""

    def rule(resource: str, *verbs: str, **more: list[str]) -> dict[str, Any]:
        return {"apiGroups": [""], "resources": [resource], "verbs": verbs, **more}

    in_leadsman = [
        rule("configmaps", "create"),
        rule("configmaps", "get", "update", resourceNames=["leadsman-move-plan"]),
        rule("configmaps", "get", resourceNames=["leadsman-replacement"]),
    ]
    everywhere = [rule("pods", "get"), rule("resourcequotas", "list")]
    subjects = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": OPERATOR}]
    for kind, path, rules in (("Role", f"{RBAC}/namespaces/leadsman", in_leadsman), ("ClusterRole", RBAC, everywhere)):
        cluster.call("POST", f"{path}/{kind.lower()}s", {"metadata": {"name": OPERATOR}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": OPERATOR}
        body = {"metadata": {"name": OPERATOR}, "roleRef": role, "subjects": subjects}
        cluster.call("POST", f"{path}/{kind.lower()}bindings", body)


@contextmanager
def scheduling(binaries: Path, cluster: KubeApiServer, folder: Path) -> Iterator[None]:
    """kube-scheduler with an extender that follows what self-healing publishes."""
    port, ops = free_ports(2)
    with Etcd(folder / "etcd") as etcd:
        flags = ["--plain-http", "--drain-seconds=0", "--self-healing", "--etcd", etcd.client_url]
        listen = ["--listen", f"127.0.0.1:{port}", "--ops-listen", f"127.0.0.1:{ops}", "--api-listen=127.0.0.1:0"]
        access = ["--kubeconfig", str(cluster.kubeconfig(EXTENDER))]
        urls = (f"http://127.0.0.1:{port}", f"http://127.0.0.1:{ops}")
        extender = LeadsmanProcess(["extender", *flags, *listen, *access], *urls, folder / "extender.log")
        try:
            blocked_until(lambda: extender.get("/readyz")[0] == 200, "the extender is ready")
            asked = {"urlPrefix": extender.url, "filterVerb": "filter", "nodeCacheCapable": True, "weight": 1}
            with KubeScheduler(binaries, folder / "scheduler", cluster, extenders=[asked]):
                yield
        finally:
            extender.child.kill()
            extender.child.wait()


def new_process(client: ApiClient) -> SelfHealing:
    """A controller that knows nothing yet."""
    replacement = ReplacementSettings(mends=False, hold_room_seconds=HOLD_ROOM_SECONDS)
    settings = SelfHealingSettings(enabled=True, replacement=replacement, move_plans=MovePlanLimits(per_minute=100))
    verdicts = {node: verdict(node, NodeHealth.HEALTHY) for node in EDGES}
    return SelfHealing(tools(client, event_writer(client)), settings, lambda: verdicts)


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
            renewed(self.cluster.call, node["metadata"]["name"], LEASE_SECONDS)

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
        super().__init__(kubeconfig.read_kubeconfig(cluster.kubeconfig(CONTROLLER)))
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
    allows = lambda: cluster.call("GET", f"{BUDGETS}/{name}")["status"].get("disruptionsAllowed") == allowed  # noqa: E731
    blocked_until(allows, f"a budget of {allowed}", WITHIN_SECONDS)


def deploy(cluster: KubeApiServer, name: str) -> None:
    """With a budget of one pod that may be away."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": owned_pod(name, memory="64Mi")["spec"]}
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template}
    cluster.call("POST", DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec})
    budget = {"selector": {"matchLabels": labels}, "maxUnavailable": 1}
    cluster.call("POST", BUDGETS, {"metadata": {"name": name}, "spec": budget})


def pods_by_workload(cluster: KubeApiServer) -> dict[str, list[dict[str, Any]]]:
    """Of those that run and are not being deleted."""
    found = defaultdict(list)
    for pod in cluster.call("GET", SHOP)["items"]:
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]:
            found[pod["metadata"]["labels"]["app"]].append(pod)
    return found


def settled(cluster: KubeApiServer) -> bool:
    """Whether all pods run and each budget allows one to be away."""
    budgets = cluster.call("GET", BUDGETS)["items"]
    allowed = [each["status"].get("disruptionsAllowed") for each in budgets]
    return allowed == [1, 1] and all(len(pods_by_workload(cluster)[name]) == REPLICAS for name in ("web", "db"))


async def carry_out(client: MortalClient, plan: str) -> Any:
    """The progress of the plan once it has ended, under as many controllers as it takes."""
    while True:
        healing = new_process(client)
        with suppress(Dies):
            async with running(healing.cluster.run()):
                while True:
                    for keeper in healing.keepers:
                        await keeper.turn()
                    made = healing.replacement and healing.replacement.plan
                    progress = made.memory.state.progress if made else None
                    if progress and progress.plan == plan and progress.state not in (RunState.RUNNING, RunState.PAUSED):
                        return progress
                    await asyncio.sleep(0.05)


async def test_four_moves_of_two_deployments_survive_a_kill_before_each_write_and_refused_evictions(
    cluster: KubeApiServer, tmp_path: Path
) -> None:
    kubelets = Kubelets(cluster)
    async with running(kubelets.run()):
        for name in ("web", "db"):
            await asyncio.to_thread(deploy, cluster, name)
        await asyncio.to_thread(blocked_until, lambda: settled(cluster), "all pods run", WITHIN_SECONDS)
        for node in EDGES[1:]:
            await asyncio.to_thread(add_node, cluster, node, AMOUNTS)
        pods, moves = pods_by_workload(cluster), []
        for pair, node in zip(zip(pods["web"], pods["db"], strict=True), EDGES[1:], strict=True):
            meta = cluster.call("GET", f"/api/v1/nodes/{node}")["metadata"]
            where = {"namespace": "shop", "from_node": EDGES[0], "to_node": node, "to_node_uid": meta["uid"]}
            names = [(pod["metadata"]["uid"], pod["metadata"]["name"]) for pod in pair]
            moves += [PlannedMove(pod_uid=uid, name=name, reason="maintenance", **where) for uid, name in names]
        plan = MovePlan(origin=PlanOrigin.DRAIN, taken_at=time.time(), moves=tuple(moves))
        (tmp_path / "plan.json").write_bytes(encode(plan))
        access = ["--kubeconfig", str(cluster.kubeconfig(OPERATOR))]
        assert await asyncio.to_thread(main, ["plan", "apply", str(tmp_path / "plan.json"), "--confirm", *access]) == 0
        async with MortalClient(cluster) as client, asyncio.timeout(WITHIN_SECONDS):
            progress = await carry_out(client, plan.id)
        assert await asyncio.to_thread(main, ["plan", "status", *access]) == 0
        await asyncio.to_thread(blocked_until, lambda: settled(cluster), "all pods run", WITHIN_SECONDS)
    assert (progress.state, [each.outcome for each in progress.moves]) == (RunState.DONE, [Outcome.MOVED] * 4)
    assert [each.landed_on for each in progress.moves] == [move.to_node for move in moves]
    assert client.deaths > 4 * len(moves), "it was killed at each step of each move"
    assert client.refused >= 1, "the API server said 429"
    assert sorted(client.evicted.values()) == [1] * 4
    assert min(kubelets.fewest_ready.values()) >= REPLICAS - 1, "no more pods were away than budgets allow"
    after = [pod["spec"]["nodeName"] for each in pods_by_workload(cluster).values() for pod in each]
    assert Counter(after) == Counter(move.to_node for move in moves)
    holding = cluster.call("GET", PLACEHOLDERS)["items"]
    assert all("deletionTimestamp" in each["metadata"] for each in holding), "no room is held any more"
