"""The agent's pods on a real kube-apiserver, with no other rights than the manifests give it."""

import time
from pathlib import Path
from random import Random

import pytest

from agent.node_ownership import claim_node
from agent.pods.incident_ledger import DEFAULT_LIMITS
from agent.pods.monitor import PodMonitor, PodSettings
from agent.pods.reward_persistence import RewardPersistence
from leadsman.kube.access import access_from_url
from leadsman.state.records import Identity
from tests.agent.pods import given
from tests.memory_store import MemoryStore
from tests.testbed.background import running
from tests.testbed.kube_apiserver import KubeApiServer
from tests.testbed.paper_cluster import install
from tests.waiting import until

pytestmark = pytest.mark.slow

AGENT = "system:serviceaccount:leadsman:leadsman-agent"
PODS, EVENTS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/events"


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path):
    with KubeApiServer(kubernetes_binaries, tmp_path / "kubernetes", users={AGENT: ()}) as one:
        install(one, "base/namespace.yaml", "base/serviceaccounts.yaml")
        yield one


def unhealthy(uid):
    about = {"kind": "Pod", "namespace": "default", "name": "web-0", "uid": uid, "fieldPath": "spec.containers{app}"}
    at = "2026-03-01T12:00:05Z"
    said = {"type": "Warning", "reason": "Unhealthy", "message": "Liveness probe failed: timeout", "count": 3}
    return {"metadata": {"name": "web-0.1"}, "involvedObject": about, "firstTimestamp": at, "lastTimestamp": at} | said


async def test_a_restart_by_a_liveness_probe_is_counted_with_its_cause(cluster) -> None:
    spec = {"nodeName": "edge-1", "containers": [{"name": "app", "image": "x"}]}
    made = cluster.call("POST", PODS, {"metadata": {"name": "web-0", "labels": {"app": "web"}}, "spec": spec})
    other = spec | {"nodeName": "edge-2"}
    cluster.call("POST", PODS, {"metadata": {"name": "elsewhere", "labels": {"app": "web"}}, "spec": other})
    cluster.call("PATCH", f"{PODS}/web-0/status", {"status": given.body("Running", given.running())["status"]})
    held = await claim_node(store := MemoryStore(), "edge-1", Identity("a", 0, "10.0.0.1"), 600)
    api = access_from_url(cluster.url, cluster.ca_file, cluster.token_file(AGENT))
    cache = RewardPersistence(store, "edge-1", lambda: held, Random(1))
    monitor = PodMonitor(
        "edge-1", PodSettings(api, DEFAULT_LIMITS, 0.1, 0), cache, 0.1, lambda: 0.1, time.monotonic, time.time
    )
    async with running(monitor.run()):
        await until(lambda: monitor.is_current)
        assert [pod.metadata.name for pod in monitor.pods.current.values()] == ["web-0"]
        cluster.call("POST", EVENTS, unhealthy(made["metadata"]["uid"]))
        killed = given.body("Running", given.restarted(1, 137))
        cluster.call("PATCH", f"{PODS}/web-0/status", {"status": killed["status"]})
        await until(lambda: monitor.ledger.rewards.get("web"))
        await until(lambda: monitor.ledger.rewards["web"].incidents)
        assert monitor.ledger.rewards["web"].incidents == {"probe_failure": 1}
    await monitor.client.close()
