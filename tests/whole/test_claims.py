"""A real kube-scheduler and Dynamic Resource Allocation: claims go where fewest devices are free, and nodes stay whole.

A driver that does not exist publishes ResourceSlices. Without Leadsman, kube-scheduler ranks nodes by CPU and memory,
and spreads the pods.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leadsman.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing
from leadsman.testbed.kube_scheduler import KubeScheduler
from tests.leadsman_process import LeadsmanProcess

if TYPE_CHECKING:
    from tests.whole.conftest import Start, Until

pytestmark = pytest.mark.slow

DRIVER, RESOURCE = "gpu.example.com", "/apis/resource.k8s.io/v1"
PODS, CLAIMS = "/api/v1/namespaces/default/pods", f"{RESOURCE}/namespaces/default/resourceclaims"
FREE = "leadsman_extender_claim_devices_free"
NODES, SECONDS = ("edge-1", "edge-2"), 60.0


class ClaimCluster:
    """An API server with two nodes of eight devices."""

    def __init__(self, api: KubeApiServer) -> None:
        self.api = api

    def prepare(self) -> None:
        expression = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        body = {"metadata": {"name": "gpu"}, "spec": {"selectors": [expression]}}
        self.api.call("POST", f"{RESOURCE}/deviceclasses", body)
        for name in NODES:
            node = self.api.call("POST", "/api/v1/nodes", {"metadata": {"name": name}})
            amounts = {"cpu": "64", "memory": "64Gi", "pods": "200"}
            node["status"] = {"allocatable": amounts, "capacity": amounts}
            self.api.call("PUT", f"/api/v1/nodes/{name}/status", node)
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            devices = [{"name": f"gpu-{number}"} for number in range(8)]
            spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
            self.api.call("POST", f"{RESOURCE}/resourceslices", {"metadata": {"name": name}, "spec": spec})

    def pod(self, name: str, devices: int) -> None:
        """With a claim of so many devices, and CPU by which kube-scheduler spreads."""
        exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": devices}
        spec: dict[str, Any] = {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}
        self.api.call("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})
        container = {
            "name": "main",
            "image": "x",
            "resources": {"requests": {"cpu": "4"}, "claims": [{"name": "gpus"}]},
        }
        claims = [{"name": "gpus", "resourceClaimName": name}]
        body = {"metadata": {"name": name}, "spec": {"containers": [container], "resourceClaims": claims}}
        self.api.call("POST", PODS, body)

    def node_of(self, name: str) -> str:
        found: str = self.api.call("GET", f"{PODS}/{name}")["spec"].get("nodeName", "")
        return found

    def refused(self, name: str) -> bool:
        conditions = self.api.call("GET", f"{PODS}/{name}")["status"].get("conditions", ())
        return any(each.get("reason") == "Unschedulable" for each in conditions)


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[ClaimCluster]:
    with KubeApiServer(kubernetes_binaries, tmp_path / "kubernetes") as api:
        one = ClaimCluster(api)
        one.prepare()
        yield one


@pytest.mark.parametrize("with_leadsman", [True, False], ids=["with", "without"])
def test_a_claim_of_a_whole_node_finds_one_after_claims_of_a_quarter(
    with_leadsman: bool,
    cluster: ClaimCluster,
    start: "Start",
    until: "Until",
    kubernetes_binaries: Path,
    tmp_path: Path,
) -> None:
    extenders: list[dict[str, Any]] = []
    extender: LeadsmanProcess | None = None
    if with_leadsman:
        extender = start("extender", "--devices", "--kubeconfig", str(cluster.api.kubeconfig()))
        until(lambda: extender.metric(FREE) == 16, "the slices are known", SECONDS)
        options = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5, "httpTimeout": "10s"}
        extenders = [{"urlPrefix": extender.url, "nodeCacheCapable": True, **options}]
    try:
        scheduler = KubeScheduler(kubernetes_binaries, tmp_path / "scheduler", cluster.api, extenders=extenders)
    except KubeApiServerMissing as missing:
        pytest.skip(str(missing))
    with scheduler:
        for number in range(4):
            name = f"quarter-{number}"
            cluster.pod(name, 2)
            until(lambda name=name: cluster.node_of(name), f"{name} is placed", SECONDS)
            if extender:
                left = 16 - 2 * (number + 1)
                until(lambda left=left: extender.metric(FREE) == left, "its devices are known", SECONDS)
        quarters = {cluster.node_of(f"quarter-{number}") for number in range(4)}
        cluster.pod("whole", 8)
        until(lambda: cluster.node_of("whole") or cluster.refused("whole"), "the whole one is tried", SECONDS)
        assert len(quarters) == (1 if with_leadsman else 2)
        assert bool(cluster.node_of("whole")) is with_leadsman
