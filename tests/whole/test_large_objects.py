"""Objects as large as the API server takes them, in real processes under the memory limits of the manifests."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest

from leadsman.testbed.fake_api_server import ApiServerThread
from tests.whole.test_strangers import MIB, log_lines

if TYPE_CHECKING:
    from tests.leadsman_process import LeadsmanProcess
    from tests.whole.conftest import Start, Until

MANIFESTS = Path(__file__).parents[2] / "daemonset"
AGENT_BYTES, EXTENDER_BYTES, CONTROLLER_BYTES = 128 * MIB, 512 * MIB, 512 * MIB
LABELS = {f"l{number:05}": "x" * 20 for number in range(40_000)}
DELAYS = {f"delay_n{number:05}": "25" for number in range(40_000)}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def pod(node: str = "", labels: dict[str, str] = LABELS) -> dict[str, Any]:
    """Unschedulable without a node."""
    status = {"phase": "Running" if node else "Pending", "conditions": [] if node else [UNSCHEDULABLE]}
    return {"metadata": {"labels": {**labels, "app": "shop"}}, "spec": {"nodeName": node}, "status": status}


def path(number: int) -> str:
    return f"/api/v1/namespaces/default/pods/p{number:03}"


def filtered(process: "LeadsmanProcess", number: int, labels: dict[str, str]) -> dict[str, Any]:
    meta = {"name": f"q{number}", "namespace": "default", "uid": f"u{number}", "labels": labels}
    body = json.dumps({"Pod": {"metadata": meta}, "NodeNames": ["edge-1"]}).encode()
    with urlopen(Request(f"{process.url}/scheduler/filter", body, {"Content-Type": "application/json"})) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


@pytest.fixture
def api() -> Iterator[ApiServerThread]:
    with ApiServerThread() as one:
        yield one


@pytest.mark.parametrize(
    ("manifest", "limit"),
    [
        ("base/agent.yaml", AGENT_BYTES),
        ("base/extender.yaml", EXTENDER_BYTES),
        ("components/controller/controller.yaml", CONTROLLER_BYTES),
    ],
)
def test_the_limits_here_are_those_of_the_manifests(manifest: str, limit: int) -> None:
    assert f"memory: {limit // MIB}Mi" in (MANIFESTS / manifest).read_text()


def test_50_pods_of_40_000_labels_leave_the_extender_its_memory(
    start: "Start", api: ApiServerThread, until: "Until"
) -> None:
    """By the list, by the watch and by filter; before, each of the last two ended it."""
    for number in range(20):
        api.put(path(number), pod("edge-1"))
    process = start("extender", "--kube-api", api.url)
    objects = 'leadsman_apiserver_objects{resource="pods"}'
    until(lambda: process.metric(objects) == 20, "20 pods listed")
    for number in range(20, 50):
        api.put(path(number), pod("edge-1"))
        assert filtered(process, number, LABELS)["NodeNames"] == ["edge-1"]
    until(lambda: process.metric(objects) == 50, "50 pods watched")
    assert process.peak_rss_bytes < EXTENDER_BYTES / 2


def test_40_000_delay_labels_are_a_refusal_with_its_reason_and_not_kept(start: "Start", until: "Until") -> None:
    process = start("extender")
    until(lambda: process.get("/readyz")[0] == 200, "ready")
    for number in range(50):
        refused = filtered(process, number, DELAYS)["FailedAndUnresolvableNodes"]
    assert "the labels that Leadsman reads have more than 16,384 bytes together" in refused["edge-1"]
    assert "remove some" in refused["edge-1"]
    assert process.peak_rss_bytes < EXTENDER_BYTES / 2


def test_30_pods_of_40_000_labels_on_its_node_leave_an_agent_its_memory_and_their_type(
    agent: "Start", api: ApiServerThread, until: "Until"
) -> None:
    for number in range(15):
        api.put(path(number), pod("edge-1"))
    process = agent("edge-1", 1, "--kube-api", api.url)
    until(lambda: process.metric("leadsman_pods") == 15, "15 pods listed")
    for number in range(15, 30):
        api.put(path(number), pod("edge-1", DELAYS))
    until(lambda: process.metric("leadsman_pods") == 30, "30 pods watched")
    assert process.peak_rss_bytes < AGENT_BYTES
    assert "pods default/p000 has more than 16384 bytes of labels" in process.log
    assert log_lines(process) < 60


def test_50_waiting_pods_of_40_000_labels_leave_the_controller_its_memory(
    start: "Start", api: ApiServerThread, until: "Until"
) -> None:
    api.put("/api/v1/nodes/edge-1", {})
    for number in range(20):
        api.put(path(number), pod())
    process = start("controller", "--kube-api", api.url)
    until(lambda: process.get("/readyz")[0] == 200, "ready", 60)
    for number in range(20, 50):
        api.put(path(number), pod(labels=LABELS if number % 2 else DELAYS))
    objects = 'leadsman_apiserver_objects{resource="pods"}'
    until(lambda: process.metric(objects) == 50, "50 pods watched", 60)
    assert process.peak_rss_bytes < CONTROLLER_BYTES / 2
    assert process.child.poll() is None
