"""A plan of moves on a real kube-apiserver, with a real kube-scheduler that asks a real extender, where
KUBEBUILDER_ASSETS names the binaries. The controller is killed before each of its writes, and another goes on.

There is no kubelet and no controller-manager: the test ends evicted pods and makes their owners' new ones. The
controller has the rights of its components and no other.
"""

import asyncio
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.parts import SelfHealing
from controller.settings import SelfHealingSettings
from leadsman.cli.main import main
from leadsman.decision.inputs import DecisionInputs, WorkloadIndex
from leadsman.decision.policy import Policy
from leadsman.kube import kubeconfig
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.planning.failover.node_verdict import NodeHealth
from leadsman.planning.moves.plan_run import MovePlanLimits
from leadsman.planning.replacement_plan import ReplacementSettings
from leadsman.published.documents import encode
from leadsman.published.move_plan import MovePlan, PlannedMove, PlanOrigin
from leadsman.published.moves import Outcome, PlanProgress, RunState
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.state.snapshot import Snapshot
from leadsman.testbed.etcd import Etcd, free_ports
from tests.controller.followed import tools
from tests.controller.test_self_healing import verdict
from tests.leadsman_process import LeadsmanProcess
from tests.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing
from tests.testbed.kube_scheduler import KubeScheduler

pytestmark = pytest.mark.slow

COMPONENTS = Path(__file__).parents[2] / "daemonset/components"
ACCOUNT = "system:serviceaccount:leadsman:leadsman-controller"
EXTENDER = "system:serviceaccount:leadsman:leadsman-extender"
OPERATOR = "operator"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CONFIG_MAPS = {"apiGroups": [""], "resources": ["configmaps"]}
OPERATOR_RULES = [
    {**CONFIG_MAPS, "verbs": ["create"]},
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["leadsman-move-plan"],
        "verbs": ["get", "update"],
    },
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["leadsman-replacement"], "verbs": ["get"]},
]
"""As docs/moving-pods.md says, with `get` on pods and `list` on resourcequotas everywhere."""
PODS = "/api/v1/namespaces/shop/pods"
NODES = ("edge-1", "edge-2", "edge-3")
WITHIN_SECONDS = 40.0
WRITES = range(1, 8)
"""Of a plan of one move: the states, the holding pod, what extenders read, the eviction, the release."""


class Dies(BaseException):
    """The process ends here."""


@contextmanager
def api_server(binaries: Path, folder: Path) -> Iterator[KubeApiServer]:
    """With the rights of the components and of an operator, and no node."""
    if shutil.which("kubectl") is None:
        pytest.skip("apt-get install kubernetes-client")
    with KubeApiServer(binaries, folder / "kubernetes", users={ACCOUNT: (), EXTENDER: (), OPERATOR: ()}) as one:
        for namespace in ("leadsman", "shop", "leadsman-placeholders"):
            one.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        granted = ("backups/cluster-model", "backups/rbac", "backups/extender", "move-plans/rbac")
        for file in (*granted, "backups/priority"):
            command = ["kubectl", f"--kubeconfig={one.kubeconfig()}", "apply", "-f", f"{COMPONENTS}/{file}.yaml"]
            subprocess.run(command, check=True, capture_output=True)
        grant_operator(one)
        yield one


def add_node(cluster: KubeApiServer, name: str) -> str:
    """A ready node with room for everything. Its UID."""
    made = cluster.call("POST", "/api/v1/nodes", {"metadata": {"name": name}})
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "posting"}
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "50"}, "conditions": [ready]}
    cluster.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})
    return str(made["metadata"]["uid"])


@pytest.fixture(scope="module")
def cluster(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiServer]:
    """Three nodes, and room for everything everywhere: only the extender says where a pod goes."""
    with api_server(kubernetes_binaries, tmp_path_factory.mktemp("cluster")) as one:
        for namespace in ("shop", "leadsman-placeholders"):
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
            one.call("POST", path, {"metadata": {"name": "default"}})
        for name in NODES:
            add_node(one, name)
        yield one


def grant_operator(cluster: KubeApiServer) -> None:
    """The rights that handing a plan over takes, and no other."""
    subjects = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": OPERATOR}]
    read_everywhere = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["list"]},
    ]
    for kind, path, rules in (
        ("Role", f"{RBAC}/namespaces/leadsman/", OPERATOR_RULES),
        ("ClusterRole", f"{RBAC}/", read_everywhere),
    ):
        plural = f"{kind.lower()}s"
        cluster.call("POST", f"{path}{plural}", {"metadata": {"name": OPERATOR}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": OPERATOR}
        body = {"metadata": {"name": OPERATOR}, "roleRef": role, "subjects": subjects}
        cluster.call("POST", f"{path}{kind.lower()}bindings", body)


@pytest.fixture(scope="module")
def scheduler(
    kubernetes_binaries: Path, cluster: KubeApiServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    with scheduling(kubernetes_binaries, cluster, tmp_path_factory.mktemp("extender")):
        yield


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
            deadline = time.monotonic() + WITHIN_SECONDS
            while extender.get("/readyz")[0] != 200:
                assert time.monotonic() < deadline, extender.log
                time.sleep(0.1)
            asked = {"urlPrefix": extender.url, "filterVerb": "filter", "nodeCacheCapable": True, "weight": 1}
            with KubeScheduler(binaries, folder / "scheduler", cluster, extenders=[asked]):
                yield
        except KubeApiServerMissing as missing:
            pytest.skip(str(missing))
        finally:
            extender.child.kill()
            extender.child.wait()


class CountingClient(ApiClient):
    """Counts the evictions that were done, and dies before the write of a number."""

    def __init__(self, *arguments: Any, die_before: Callable[[], bool], **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.evicted: Counter[str] = Counter()
        self._die_before = die_before

    async def send(self, call: Any) -> Any:
        if call.method != "GET" and self._die_before():
            raise Dies
        answer = await super().send(call)
        if call.path.endswith("/eviction"):
            self.evicted[call.path] += 1
        return answer


def new_process(client: ApiClient, hold_room_seconds: float = 30.0) -> SelfHealing:
    """A controller that knows nothing yet."""
    replacement = ReplacementSettings(mends=False, hold_room_seconds=hold_room_seconds)
    settings = SelfHealingSettings(enabled=True, replacement=replacement, move_plans=MovePlanLimits(per_minute=100))
    inputs = DecisionInputs(Snapshot(), Policy(), 100.0, workloads=WorkloadIndex({}, 100.0))
    recorder = EventWriter(client, TokenBucket(100, 100), "test")
    verdicts = {node: verdict(node, NodeHealth.HEALTHY) for node in NODES}
    return SelfHealing(tools(client, recorder, lambda: inputs), settings, lambda: verdicts)


def progress_of(healing: SelfHealing) -> PlanProgress | None:
    plan = healing.replacement and healing.replacement.plan
    return plan.memory.state.progress if plan else None


class Story:
    """A controller that dies once, a kubelet that ends what is being deleted, and the owner of the moved pod."""

    def __init__(self, cluster: KubeApiServer, name: str, die_before: int) -> None:
        self.cluster, self.name, self.writes, self.die_before, self.deaths = cluster, name, 0, die_before, 0
        self.client = CountingClient(kubeconfig.read(cluster.kubeconfig(ACCOUNT)), die_before=self.dies)
        self.healing = self.start()

    def dies(self) -> bool:
        self.writes += 1
        return self.writes == self.die_before

    def start(self) -> SelfHealing:
        return new_process(self.client)

    @property
    def progress(self) -> PlanProgress | None:
        return progress_of(self.healing)

    async def run(self) -> None:
        """Until the plan has come to an end."""
        while True:
            following = asyncio.create_task(self.healing.cluster.run())
            try:
                while not (self.progress and self.progress.state not in (RunState.RUNNING, RunState.PAUSED)):
                    for keeper in self.healing.keepers:
                        await keeper.turn()
                    await asyncio.to_thread(self.others)
                    await asyncio.sleep(0.05)
                return
            except Dies:
                self.deaths += 1
                self.healing = self.start()
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    def others(self) -> None:
        """The owner makes a new pod for one that ends, and the kubelet ends it."""
        pods = self.cluster.call("GET", "/api/v1/pods")["items"]
        names = {each["metadata"]["name"] for each in pods}
        for each in pods:
            meta = each["metadata"]
            if "deletionTimestamp" in meta:
                if meta["name"] == self.name and f"{self.name}-new" not in names:
                    self.cluster.call("POST", PODS, pod(f"{self.name}-new", self.name))
                path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
                self.cluster.call("DELETE", path, {"gracePeriodSeconds": 0})


def pod(name: str, owner: str, node: str = "") -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"rs-{owner}", "controller": True}
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    spec = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "none", "resources": resources}],
        **({"nodeName": node} if node else {}),
    }
    return {"metadata": {"name": name, "ownerReferences": [reference]}, "spec": spec}


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize("number", WRITES)
async def test_a_controller_killed_before_a_write_goes_on_and_the_pod_is_evicted_once_and_lands_where_planned(
    cluster: KubeApiServer, number: int, tmp_path: Path
) -> None:
    name, to_node = f"web-{number}", NODES[1 + number % 2]
    created = await asyncio.to_thread(cluster.call, "POST", PODS, pod(name, name, "edge-1"))
    node = await asyncio.to_thread(cluster.call, "GET", f"/api/v1/nodes/{to_node}")
    move = PlannedMove(
        pod_uid=created["metadata"]["uid"],
        namespace="shop",
        name=name,
        from_node="edge-1",
        to_node=to_node,
        to_node_uid=node["metadata"]["uid"],
        reason="maintenance",
    )
    plan = MovePlan(origin=PlanOrigin.DRAIN, taken_at=time.time(), moves=(move,))
    (tmp_path / "plan.json").write_bytes(encode(plan))
    access = ["--kubeconfig", str(cluster.kubeconfig(OPERATOR))]
    assert await asyncio.to_thread(main, ["plan", "apply", str(tmp_path / "plan.json"), "--confirm", *access]) == 0
    story = Story(cluster, name, number)
    async with story.client, asyncio.timeout(WITHIN_SECONDS):
        while story.progress is None or story.progress.plan != plan.id:
            await story.run()
    assert story.progress.state is RunState.DONE
    assert [each.outcome for each in story.progress.moves] == [Outcome.MOVED]
    assert story.progress.moves[0].landed_on == to_node
    assert await asyncio.to_thread(main, ["plan", "status", *access]) == 0
    assert story.deaths == 1
    assert list(story.client.evicted.values()) == [1]
    holding = await asyncio.to_thread(cluster.call, "GET", "/api/v1/namespaces/leadsman-placeholders/pods")
    assert all("deletionTimestamp" in each["metadata"] for each in holding["items"]), "no room is held any more"
