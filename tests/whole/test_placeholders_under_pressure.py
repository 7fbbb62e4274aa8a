"""200 pods pressed into a full cluster by a real kube-scheduler: what becomes of the placeholders.

Ten nodes of 4 CPUs, each filled by three pods of priority 0 and one placeholder, made as the controller makes them. The
pods are never run: the nodes have no kubelet, and the test ends those that are being deleted in its place.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from controller.placeholders import placeholder_body
from controller.settings import PlaceholderSettings
from leadsman.cluster.resources import Resources
from leadsman.kube.names import PLACEHOLDER_NAMESPACE
from leadsman.planning.backups.placeholders import CreatePlaceholder
from leadsman.published.self_healing import SELF_HEALING, Hold, LastRoundTrips, RecoveryState, SelfHealingState
from tests.leadsman_process import LeadsmanProcess
from tests.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing
from tests.testbed.kube_scheduler import KubeScheduler

if TYPE_CHECKING:
    from tests.whole.conftest import Start, Until

pytestmark = pytest.mark.slow

MANIFESTS = Path(__file__).parents[2] / "daemonset"
ACCOUNT = "system:serviceaccount:leadsman:leadsman-extender"
RBAC, PRIORITY_CLASSES = "/apis/rbac.authorization.k8s.io/v1", "/apis/scheduling.k8s.io/v1/priorityclasses"
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "PriorityClass": PRIORITY_CLASSES,
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "Role": f"{RBAC}/namespaces/leadsman/roles",
    "RoleBinding": f"{RBAC}/namespaces/leadsman/rolebindings",
}
HOLDER = Resources(1000, 64 << 20, 1)
NODES = [f"edge-{number}" for number in range(10)]
OWNER, SECONDS = "7d9c6f5e-rs-web", 120.0
ALLOCATABLE = {"cpu": "4", "memory": "8Gi", "pods": "60"}

Object = dict[str, Any]


class FullCluster:
    """An API server with full nodes, and what is asked of it."""

    def __init__(self, api: KubeApiServer) -> None:
        self.api = api

    def prepare(self) -> None:
        """Namespaces, priority classes, and the rights that the manifests give the extender, and no more."""
        self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "leadsman"}})
        self.api.call("POST", PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        manifests = MANIFESTS / "components"
        for file in (
            manifests / "self-healing" / "namespace.yaml",
            manifests / "self-healing" / "priority.yaml",
            manifests / "self-healing" / "extender.yaml",
            MANIFESTS / "base" / "serviceaccounts.yaml",
        ):
            for one in yaml.safe_load_all(file.read_text()):
                if one["kind"] in PATHS:
                    self.api.call("POST", PATHS[one["kind"]], one)

    def fill(self) -> None:
        for name in NODES:
            node = self.api.call("POST", "/api/v1/nodes", {"metadata": {"name": name}})
            node["status"] = {"allocatable": ALLOCATABLE, "capacity": ALLOCATABLE}
            self.api.call("PUT", f"/api/v1/nodes/{name}/status", node)
            self.hold_room(name)
            for number in range(3):
                self.pod(f"filler-{name}-{number}", "1")

    def hold_room(self, node: str) -> None:
        body = placeholder_body(CreatePlaceholder(node, HOLDER, (), ""), PlaceholderSettings())
        self.api.call("POST", f"/api/v1/namespaces/{PLACEHOLDER_NAMESPACE}/pods", body)

    def pod(self, name: str, cpu: str, *, high: bool = False, owner: str = "", **labels: str) -> None:
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "uid": owner, "controller": True}
        metadata = {"name": name, "labels": labels, "ownerReferences": [reference] if owner else []}
        container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
        more = {"priorityClassName": "high"} if high else {}
        self.api.call("POST", "/api/v1/namespaces/default/pods", {"metadata": metadata, "spec": spec | more})

    def press(self) -> None:
        """200 pods that fit nowhere."""
        for number in range(100):
            self.pod(f"plain-{number}", "500m")
            self.pod(f"high-{number}", "500m", high=True)

    def publish(self, state: SelfHealingState) -> None:
        body = {
            "metadata": {"name": SELF_HEALING.config_map},
            "data": {"state.json": SELF_HEALING.encode(state).decode()},
        }
        self.api.call("POST", "/api/v1/namespaces/leadsman/configmaps", body)

    def pods(self, namespace: str = "default") -> list[Object]:
        found: list[Object] = self.api.call("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
        return found

    def bound(self, prefix: str) -> list[str]:
        """Of the pods whose names begin so, the nodes of those that have one."""
        named = [pod for pod in self.pods() if pod["metadata"]["name"].startswith(prefix)]
        return [pod["spec"]["nodeName"] for pod in named if "nodeName" in pod["spec"]]

    def untried(self) -> int:
        """Of those pressed in, how many are neither bound nor told that they fit nowhere."""
        pressed = [pod for pod in self.pods() if pod["metadata"]["name"].startswith(("plain-", "high-"))]
        return sum("nodeName" not in pod["spec"] and not pod["status"].get("conditions") for pod in pressed)

    def holders(self) -> Mapping[str, str]:
        """UID → node of the placeholders that are bound and stay."""
        return {
            pod["metadata"]["uid"]: pod["spec"]["nodeName"]
            for pod in self.pods(PLACEHOLDER_NAMESPACE)
            if "nodeName" in pod["spec"] and "deletionTimestamp" not in pod["metadata"]
        }

    def end(self, uid: str) -> None:
        """Ends the pod of this UID, and as a kubelet would, all that are being deleted."""
        for pod in self.pods(PLACEHOLDER_NAMESPACE):
            if pod["metadata"]["uid"] == uid or "deletionTimestamp" in pod["metadata"]:
                path = f"/api/v1/namespaces/{PLACEHOLDER_NAMESPACE}/pods/{pod['metadata']['name']}"
                self.api.call("DELETE", path, {"gracePeriodSeconds": 0})


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[FullCluster]:
    with KubeApiServer(kubernetes_binaries, tmp_path / "kubernetes", users={ACCOUNT: ()}) as api:
        one = FullCluster(api)
        one.prepare()
        yield one


@pytest.fixture
def schedule(
    kubernetes_binaries: Path, tmp_path: Path, cluster: FullCluster, until: "Until"
) -> Iterator[Callable[..., None]]:
    """`schedule(*extenders)`: fills the cluster, with kube-scheduler asking these."""
    running: list[KubeScheduler] = []

    def started(*extenders: LeadsmanProcess) -> None:
        calls = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt"}
        options = {"nodeCacheCapable": True, "ignorable": True, "weight": 5, "httpTimeout": "10s"}
        configured = [{"urlPrefix": one.url, **calls, **options} for one in extenders]
        folder = tmp_path / "scheduler"
        try:
            one = KubeScheduler(kubernetes_binaries, folder, cluster.api, extenders=configured, preempts=True)
        except KubeApiServerMissing as missing:
            pytest.skip(str(missing))
        running.append(one.__enter__())
        cluster.fill()
        full = lambda: len(cluster.bound("filler-")) == 30 and len(cluster.holders()) == 10  # noqa: E731
        until(full, "ten nodes full", SECONDS)
        counts = "leadsman_extender_placeholders"
        until(lambda: all(each.metric(counts) == 10 for each in extenders), "all placeholders are known")

    yield started
    for one in running:
        one.__exit__()


@pytest.fixture
def extender(start: "Start", until: "Until", cluster: FullCluster) -> LeadsmanProcess:
    one = start("extender", "--self-healing", "--kubeconfig", str(cluster.api.kubeconfig(ACCOUNT)))
    until(lambda: one.get("/readyz")[0] == 200, "the extender is up")
    return one


def test_no_placeholder_is_lost_to_200_pods_and_a_covered_pod_s_replacement_gets_its_room(
    cluster: FullCluster, extender: LeadsmanProcess, schedule: Callable[..., None], until: "Until"
) -> None:
    schedule(extender)
    before = cluster.holders()
    cluster.press()
    until(lambda: not cluster.untried(), "all were tried", SECONDS)
    until(lambda: extender.metric("leadsman_extender_protected_placeholders_total") >= 200, "all would have evicted")
    assert cluster.holders() == before
    assert cluster.bound("plain-") == cluster.bound("high-") == []
    page = extender.told("default/high-7")
    assert "the pod would evict a placeholder, which holds room for other pods" in page

    cluster.publish(SelfHealingState(backup_owners={"edge-3": (OWNER,)}))
    until(lambda: extender.metric('leadsman_apiserver_objects{resource="configmaps"}') == 1, "the state is known")
    cluster.pod("web-replacement", "500m", high=True, owner=OWNER)
    [doomed] = [uid for uid, node in before.items() if node == "edge-3"]
    until(lambda: doomed not in cluster.holders(), "its own placeholder gives way", SECONDS)
    cluster.end(doomed)
    until(lambda: cluster.bound("web-"), "it is bound", SECONDS)
    assert cluster.bound("web-") == ["edge-3"]
    assert cluster.holders() == {uid: node for uid, node in before.items() if uid != doomed}


def test_released_room_goes_to_the_pod_of_the_dead_node_although_200_others_wait_for_it(
    cluster: FullCluster, extender: LeadsmanProcess, schedule: Callable[..., None], until: "Until"
) -> None:
    """The replacement is bound to the dead node, which nobody can measure."""
    schedule(extender)
    before = cluster.holders()
    cluster.press()
    until(lambda: not cluster.untried(), "all were tried", SECONDS)
    now = time.time()
    hold = Hold("edge-3", OWNER, HOLDER, now + 600.0)
    recovery = RecoveryState(refused={"gone": "4 of 4 peers lost it"}, holds=(hold,))
    last = {"gone": LastRoundTrips(now - 20.0, {"edge-3": 2.0, "edge-4": 30.0})}
    cluster.publish(SelfHealingState(recovery, now, last))
    until(lambda: extender.metric("leadsman_extender_holds") == 1, "the hold is known")
    [released] = [uid for uid, node in before.items() if node == "edge-3"]
    cluster.end(released)
    cluster.pod("web-replacement", "1", owner=OWNER, delay_gone="5")
    until(lambda: cluster.bound("web-"), "it is bound", SECONDS)
    assert cluster.bound("web-") == ["edge-3"]
    assert cluster.bound("plain-") == cluster.bound("high-") == []
    assert cluster.holders() == {uid: node for uid, node in before.items() if uid != released}
    page = extender.told("default/web-replacement")
    assert "2 ms from gone (before-failure" in page


def test_with_a_disruption_budget_pods_of_higher_priority_evict_ordinary_ones_instead(
    cluster: FullCluster, extender: LeadsmanProcess, schedule: Callable[..., None], until: "Until"
) -> None:
    """kube-scheduler spares what a budget protects while anything else makes the room."""
    schedule(extender)
    before = cluster.holders()
    budget = yaml.safe_load((MANIFESTS / "components/self-healing/budget.yaml").read_text())
    cluster.api.call("POST", f"/apis/policy/v1/namespaces/{PLACEHOLDER_NAMESPACE}/poddisruptionbudgets", budget)
    cluster.press()
    until(lambda: len(cluster.bound("high-")) == 60, "60 of priority 1000 took the room of 30 fillers", SECONDS)
    until(lambda: not cluster.untried(), "all were tried", SECONDS)
    assert cluster.bound("filler-") == cluster.bound("plain-") == []
    assert cluster.holders() == before
