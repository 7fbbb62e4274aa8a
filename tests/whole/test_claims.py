"""A real kube-scheduler and Dynamic Resource Allocation: claims go where fewest devices are free, and nodes stay whole;
a claim that prefers a device, and can do with another, gets what its type gains by.

A driver that does not exist publishes ResourceSlices. Without Leadsman, kube-scheduler ranks nodes by CPU and memory,
and spreads the pods. The extender has the rights of the component `devices`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.leadsman_process import LeadsmanProcess
from tests.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing
from tests.testbed.kube_scheduler import KubeScheduler

if TYPE_CHECKING:
    from tests.whole.conftest import Start, Until

pytestmark = pytest.mark.slow

DRIVER, RESOURCE = "gpu.example.com", "/apis/resource.k8s.io/v1"
PODS, CLAIMS = "/api/v1/namespaces/default/pods", f"{RESOURCE}/namespaces/default/resourceclaims"
FREE = "leadsman_extender_claim_devices_free"
TIERS, SECONDS = {"edge-1": "large", "edge-2": "small"}, 60.0
RBAC = Path(__file__).parents[2] / "daemonset/components/devices/rbac.yaml"
ACCOUNT = "system:serviceaccount:leadsman:leadsman-extender"
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
EXTENDER = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5, "httpTimeout": "10s"}


class ClaimCluster:
    """An API server with two nodes of eight devices."""

    def __init__(self, api: KubeApiServer) -> None:
        self.api = api

    def prepare(self) -> None:
        expression = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        body = {"metadata": {"name": "gpu"}, "spec": {"selectors": [expression]}}
        self.api.call("POST", f"{RESOURCE}/deviceclasses", body)
        role, binding = yaml.safe_load_all(RBAC.read_text())
        self.api.call("POST", f"{RIGHTS}/clusterroles", role)
        self.api.call("POST", f"{RIGHTS}/clusterrolebindings", binding)
        for name in TIERS:
            node = self.api.call("POST", "/api/v1/nodes", {"metadata": {"name": name}})
            amounts = {"cpu": "64", "memory": "64Gi", "pods": "200"}
            node["status"] = {"allocatable": amounts, "capacity": amounts}
            self.api.call("PUT", f"/api/v1/nodes/{name}/status", node)
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            devices = [
                {"name": f"gpu-{number}", "attributes": {"tier": {"string": TIERS[name]}}} for number in range(8)
            ]
            spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
            self.api.call("POST", f"{RESOURCE}/resourceslices", {"metadata": {"name": name}, "spec": spec})

    def kubeconfig(self) -> str:
        return str(self.api.kubeconfig(ACCOUNT))

    def pod(self, name: str, **request: Any) -> None:
        """With a claim, and CPU by which kube-scheduler spreads."""
        spec: dict[str, Any] = {"devices": {"requests": [{"name": "gpus", **request}]}}
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


def exactly(devices: int) -> dict[str, Any]:
    return {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": devices}


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[ClaimCluster]:
    with KubeApiServer(kubernetes_binaries, tmp_path / "kubernetes", users={ACCOUNT: ()}) as api:
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
        extender = start("extender", "--devices", "--kubeconfig", cluster.kubeconfig())
        until(lambda: extender.metric(FREE) == 16, "the slices are known", SECONDS)
        extenders = [{"urlPrefix": extender.url, "nodeCacheCapable": True, **EXTENDER}]
    try:
        scheduler = KubeScheduler(kubernetes_binaries, tmp_path / "scheduler", cluster.api, extenders=extenders)
    except KubeApiServerMissing as missing:
        pytest.skip(str(missing))
    with scheduler:
        for number in range(4):
            name = f"quarter-{number}"
            cluster.pod(name, exactly=exactly(2))
            until(lambda name=name: cluster.node_of(name), f"{name} is placed", SECONDS)
            if extender:
                left = 16 - 2 * (number + 1)
                until(lambda left=left: extender.metric(FREE) == left, "its devices are known", SECONDS)
        quarters = {cluster.node_of(f"quarter-{number}") for number in range(4)}
        cluster.pod("whole", exactly=exactly(8))
        until(lambda: cluster.node_of("whole") or cluster.refused("whole"), "the whole one is tried", SECONDS)
        assert len(quarters) == (1 if with_leadsman else 2)
        assert bool(cluster.node_of("whole")) is with_leadsman


LARGE = [{"cel": {"expression": f'device.attributes["{DRIVER}"].tier == "large"'}}]
PREFER_LARGE = [
    {"name": "large", "deviceClassName": "gpu", "selectors": LARGE},
    {"name": "any", "deviceClassName": "gpu"},
]


@pytest.mark.parametrize(("prior", "node", "request_met"), [(1.0, "edge-2", "gpus/any"), (2.0, "edge-1", "gpus/large")])
def test_a_claim_with_first_available_gets_what_it_prefers_only_where_its_type_gains_by_it(
    prior: float,
    node: str,
    request_met: str,
    cluster: ClaimCluster,
    start: "Start",
    until: "Until",
    kubernetes_binaries: Path,
    tmp_path: Path,
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"devices: {{gain_prior: {prior}, gain_explore_ratio: 0}}\n")
    arguments = ("--policy", str(policy), "--kubeconfig", cluster.kubeconfig())
    extender = start("extender", "--devices", *arguments)
    until(lambda: extender.metric(FREE) == 16, "the slices are known", SECONDS)
    extenders = [{"urlPrefix": extender.url, "nodeCacheCapable": True, **EXTENDER}]
    cluster.pod("train", firstAvailable=PREFER_LARGE)
    try:
        scheduler = KubeScheduler(kubernetes_binaries, tmp_path / "scheduler", cluster.api, extenders=extenders)
    except KubeApiServerMissing as missing:
        pytest.skip(str(missing))
    with scheduler:
        until(lambda: cluster.node_of("train"), "the pod is placed", SECONDS)
    assert cluster.node_of("train") == node
    results = cluster.api.call("GET", f"{CLAIMS}/train")["status"]["allocation"]["devices"]["results"]
    assert [each["request"] for each in results] == [request_met], "as the allocator of kube-scheduler chose"
    explanation = extender.told("default/train")
    assert f"too few runs; the policy's prior is {prior:g}" in explanation
