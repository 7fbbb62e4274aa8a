"""A real kube-scheduler and Dynamic Resource Allocation: claims go where fewest devices are free, and nodes stay whole;
a claim that prefers a device, and can do with another, gets what its type gains by.

A driver that does not exist publishes ResourceSlices. Without Leadsman, kube-scheduler ranks nodes by CPU and memory,
and spreads the pods. The extender has the rights of the component `devices`.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.leadsman_process import LeadsmanProcess
from tests.testbed.paper_cluster import EXTENDER, PaperCluster, add_node, install
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start

pytestmark = pytest.mark.slow

DRIVER, RESOURCE = "gpu.example.com", "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCE}/namespaces/default/resourceclaims"
FREE = "leadsman_extender_claim_devices_free"
TIERS, SECONDS = {"edge-1": "large", "edge-2": "small"}, 60.0


class ClaimCluster(PaperCluster):
    """Two nodes of eight devices."""

    def prepare(self) -> None:
        expression = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        body = {"metadata": {"name": "gpu"}, "spec": {"selectors": [expression]}}
        self.api.call("POST", f"{RESOURCE}/deviceclasses", body)
        install(self.api, "components/devices/rbac.yaml")
        for name, tier in TIERS.items():
            add_node(self.api, name, {"cpu": "64", "memory": "64Gi", "pods": "200"})
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            devices = [{"name": f"gpu-{number}", "attributes": {"tier": {"string": tier}}} for number in range(8)]
            spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
            self.api.call("POST", f"{RESOURCE}/resourceslices", {"metadata": {"name": name}, "spec": spec})

    def claiming_pod(self, name: str, **request: Any) -> None:
        """With a claim, and CPU by which kube-scheduler spreads."""
        spec = {"devices": {"requests": [{"name": "gpus", **request}]}}
        self.api.call("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})
        resources = {"requests": {"cpu": "4"}, "claims": [{"name": "gpus"}]}
        self.pod(name, resources, {}, resourceClaims=[{"name": "gpus", "resourceClaimName": name}])


def exactly(devices: int) -> dict[str, Any]:
    return {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": devices}


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[ClaimCluster]:
    with ClaimCluster(kubernetes_binaries, tmp_path, EXTENDER) as one:
        one.prepare()
        yield one


@pytest.fixture
def extender(cluster: ClaimCluster, start: Start, tmp_path: Path) -> Callable[[str], LeadsmanProcess]:
    """`extender(policy)`: one that kube-scheduler asks."""

    def started(policy: str) -> LeadsmanProcess:
        (tmp_path / "policy.yaml").write_text(policy)
        arguments = ("--policy", str(tmp_path / "policy.yaml"), "--kubeconfig", str(cluster.api.kubeconfig(EXTENDER)))
        one = start("extender", "--devices", *arguments)
        until(lambda: one.metric(FREE) == 16, "the slices are known", SECONDS)
        cluster.schedule(one.url)
        return one

    return started


def test_a_claim_of_a_whole_node_finds_one_after_claims_of_a_quarter(
    cluster: ClaimCluster, extender: Callable[[str], LeadsmanProcess]
) -> None:
    asked = extender("{}")
    for number in range(4):
        name = f"quarter-{number}"
        cluster.claiming_pod(name, exactly=exactly(2))
        until(lambda name=name: cluster.bound(name), f"{name} is placed", SECONDS)
        left = 16 - 2 * (number + 1)
        until(lambda left=left: asked.metric(FREE) == left, "its devices are known", SECONDS)
    cluster.claiming_pod("whole", exactly=exactly(8))
    until(lambda: not cluster.untried("whole"), "the whole one is tried", SECONDS)
    assert len({*cluster.bound("quarter-")}) == len(cluster.bound("whole")) == 1


LARGE = [{"cel": {"expression": f'device.attributes["{DRIVER}"].tier == "large"'}}]
PREFER_LARGE = [
    {"name": "large", "deviceClassName": "gpu", "selectors": LARGE},
    {"name": "any", "deviceClassName": "gpu"},
]


@pytest.mark.parametrize(("prior", "node", "request_met"), [(1.0, "edge-2", "gpus/any"), (2.0, "edge-1", "gpus/large")])
def test_a_claim_with_first_available_gets_what_it_prefers_only_where_its_type_gains_by_it(
    prior: float, node: str, request_met: str, cluster: ClaimCluster, extender: Callable[[str], LeadsmanProcess]
) -> None:
    asked = extender(f"devices: {{gain_prior: {prior}, gain_explore_ratio: 0}}\n")
    cluster.claiming_pod("train", firstAvailable=PREFER_LARGE)
    until(lambda: cluster.bound("train"), "the pod is placed", SECONDS)
    assert cluster.bound("train") == [node]
    results = cluster.api.call("GET", f"{CLAIMS}/train")["status"]["allocation"]["devices"]["results"]
    assert [each["request"] for each in results] == [request_met], "as the allocator of kube-scheduler chose"
    assert f"too few runs; the policy's prior is {prior:g}" in asked.told("default/train")
