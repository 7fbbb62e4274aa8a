"""200 pods pressed into a full cluster by a real kube-scheduler: what becomes of the placeholders.

Ten nodes of 4 CPUs, each filled by three pods of priority 0 and one placeholder, made as the controller makes them. The
pods are never run: the nodes have no kubelet, and the test ends those that are being deleted in its place.
"""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from controller.backup_keeper import placeholder_body
from controller.settings import PlaceholderSettings
from leadsman.cluster.resources import Resources
from leadsman.kube.names import PLACEHOLDER_NAMESPACE
from leadsman.planning.backups.placeholders import CreatePlaceholder
from leadsman.published.self_healing import SELF_HEALING, Hold, LastRoundTrips, RecoveryState, SelfHealingState
from tests.leadsman_process import LeadsmanProcess
from tests.testbed.paper_cluster import COLLECTIONS, EXTENDER, PaperCluster, add_node, install
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start

pytestmark = pytest.mark.slow

HOLDERS = f"/api/v1/namespaces/{PLACEHOLDER_NAMESPACE}/pods"
HOLDER = Resources(1000, 64 << 20, 1)
NODES = [f"edge-{number}" for number in range(10)]
OWNER, SECONDS = "7d9c6f5e-rs-web", 120.0
ALLOCATABLE = {"cpu": "4", "memory": "8Gi", "pods": "60"}


class FullCluster(PaperCluster):
    """Full nodes."""

    def prepare(self) -> None:
        """Namespaces, priority classes, and the rights that the manifests give the extender, and no more."""
        self.api.call("POST", COLLECTIONS["Namespace"], {"metadata": {"name": "leadsman"}})
        self.api.call("POST", COLLECTIONS["PriorityClass"], {"metadata": {"name": "high"}, "value": 1000})
        component = (f"components/self-healing/{name}.yaml" for name in ("namespace", "priority", "extender"))
        install(self.api, *component, "base/serviceaccounts.yaml")

    def fill(self) -> None:
        for name in NODES:
            add_node(self.api, name, ALLOCATABLE)
            body = placeholder_body(CreatePlaceholder(name, HOLDER, (), ""), PlaceholderSettings())
            self.api.call("POST", HOLDERS, body)
            for number in range(3):
                self.asking_pod(f"filler-{name}-{number}", "1")

    def asking_pod(self, name: str, cpu: str, *, high: bool = False, owner: str = "", **labels: str) -> None:
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "uid": owner, "controller": True}
        metadata = {"labels": labels, "ownerReferences": [reference] if owner else []}
        more = {"priorityClassName": "high"} if high else {}
        self.pod(name, {"requests": {"cpu": cpu}}, metadata, terminationGracePeriodSeconds=0, **more)

    def press(self) -> None:
        """200 pods that fit nowhere."""
        for number in range(100):
            self.asking_pod(f"plain-{number}", "500m")
            self.asking_pod(f"high-{number}", "500m", high=True)

    def publish(self, state: SelfHealingState) -> None:
        data = {"state.json": SELF_HEALING.encode(state).decode()}
        body = {"metadata": {"name": SELF_HEALING.config_map}, "data": data}
        self.api.call("POST", "/api/v1/namespaces/leadsman/configmaps", body)

    def all_tried(self) -> bool:
        """Whether each of those pressed in is bound, or was told that it fits nowhere."""
        return not self.untried("plain-") and not self.untried("high-")

    def holders(self) -> Mapping[str, str]:
        """UID → node of the placeholders that are bound and stay."""
        return {
            pod["metadata"]["uid"]: pod["spec"]["nodeName"]
            for pod in self.api.call("GET", HOLDERS)["items"]
            if "nodeName" in pod["spec"] and "deletionTimestamp" not in pod["metadata"]
        }

    def end(self, uid: str) -> None:
        """Ends the pod of this UID, and as a kubelet would, all that are being deleted."""
        for pod in self.api.call("GET", HOLDERS)["items"]:
            if pod["metadata"]["uid"] == uid or "deletionTimestamp" in pod["metadata"]:
                self.api.call("DELETE", f"{HOLDERS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[FullCluster]:
    with FullCluster(kubernetes_binaries, tmp_path, EXTENDER) as one:
        one.prepare()
        yield one


@pytest.fixture
def extender(cluster: FullCluster, start: Start) -> LeadsmanProcess:
    """Asked by a kube-scheduler that has filled the cluster."""
    one = start("extender", "--self-healing", "--kubeconfig", str(cluster.api.kubeconfig(EXTENDER))).ready()
    cluster.schedule(one.url, preempts=True, preemptVerb="preempt", ignorable=True)
    cluster.fill()
    full = lambda: len(cluster.bound("filler-")) == 30 and len(cluster.holders()) == 10  # noqa: E731
    until(full, "ten nodes full", SECONDS)
    until(lambda: one.metric("leadsman_extender_placeholders") == 10, "all placeholders are known")
    return one


def test_no_placeholder_is_lost_to_200_pods_and_a_covered_pod_s_replacement_gets_its_room(
    cluster: FullCluster, extender: LeadsmanProcess
) -> None:
    before = cluster.holders()
    cluster.press()
    until(cluster.all_tried, "all were tried", SECONDS)
    until(lambda: extender.metric("leadsman_extender_protected_placeholders_total") >= 200, "all would have evicted")
    assert cluster.holders() == before
    assert cluster.bound("plain-") == cluster.bound("high-") == []
    page = extender.told("default/high-7")
    assert "the pod would evict a placeholder, which holds room for other pods" in page

    cluster.publish(SelfHealingState(backup_owners={"edge-3": (OWNER,)}))
    until(lambda: extender.metric('leadsman_apiserver_objects{resource="configmaps"}') == 1, "the state is known")
    cluster.asking_pod("web-replacement", "500m", high=True, owner=OWNER)
    [doomed] = [uid for uid, node in before.items() if node == "edge-3"]
    until(lambda: doomed not in cluster.holders(), "its own placeholder gives way", SECONDS)
    cluster.end(doomed)
    until(lambda: cluster.bound("web-"), "it is bound", SECONDS)
    assert cluster.bound("web-") == ["edge-3"]
    assert cluster.holders() == {uid: node for uid, node in before.items() if uid != doomed}


def test_released_room_goes_to_the_pod_of_the_dead_node_although_200_others_wait_for_it(
    cluster: FullCluster, extender: LeadsmanProcess
) -> None:
    """The replacement is bound to the dead node, which nobody can measure."""
    before = cluster.holders()
    add_node(cluster.api, "gone", {**ALLOCATABLE, "cpu": "0"})
    cluster.press()
    until(cluster.all_tried, "all were tried", SECONDS)
    now = time.time()
    hold = Hold("edge-3", OWNER, HOLDER, now + 600.0)
    recovery = RecoveryState(refused={"gone": "4 of 4 peers lost it"}, holds=(hold,))
    last = {"gone": LastRoundTrips(now - 20.0, {"edge-3": 2.0, "edge-4": 30.0})}
    cluster.publish(SelfHealingState(recovery, now, last))
    until(lambda: extender.metric("leadsman_extender_holds") == 1, "the hold is known")
    [released] = [uid for uid, node in before.items() if node == "edge-3"]
    cluster.end(released)
    cluster.asking_pod("web-replacement", "1", owner=OWNER, delay_gone="5")
    until(lambda: cluster.bound("web-"), "it is bound", SECONDS)
    assert cluster.bound("web-") == ["edge-3"]
    assert cluster.bound("plain-") == cluster.bound("high-") == []
    assert cluster.holders() == {uid: node for uid, node in before.items() if uid != released}
    page = extender.told("default/web-replacement")
    assert "2 ms from gone (before-failure" in page


def test_with_a_disruption_budget_pods_of_higher_priority_evict_ordinary_ones_instead(
    cluster: FullCluster, extender: LeadsmanProcess
) -> None:
    """kube-scheduler spares what a budget protects while anything else makes the room."""
    before = cluster.holders()
    install(cluster.api, "components/self-healing/budget.yaml")
    cluster.press()
    until(lambda: len(cluster.bound("high-")) == 60, "60 of priority 1000 took the room of 30 fillers", SECONDS)
    until(cluster.all_tried, "all were tried", SECONDS)
    assert cluster.bound("filler-") == cluster.bound("plain-") == []
    assert cluster.holders() == before
