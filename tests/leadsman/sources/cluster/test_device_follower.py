"""The devices of nodes, from a fake API server on a real socket: cards, who has them, and what claims ask."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from leadsman.cluster.devices.node_devices import DeviceCount, DraDevice
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.sources.cluster.device_follower import DeviceFollower
from leadsman.sources.cluster.device_objects import ResourceSliceObject
from leadsman.sources.telemetry.device_metrics import devices_by_uuid
from tests.leadsman.sources.cluster.test_claim_devices import slice_of
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

PODS = "/api/v1/namespaces/shop/pods"
GPU = "nvidia.com/gpu"


@asynccontextmanager
async def following(api: FakeApiServer, *reserved: str) -> AsyncIterator[DeviceFollower]:
    async def reserved_uids() -> tuple[str, ...]:
        return reserved

    async with ApiClient(ApiAccess(api.url), deadline_seconds=60.0) as client:
        one = DeviceFollower(client, reserved_uids=reserved_uids)
        async with running(one.run()):
            await until(lambda: one.nodes.loaded.is_set() and one.pods.loaded.is_set())
            yield one


def node(api: FakeApiServer, name: str, **devices: str) -> None:
    labels = {"nvidia.com/gpu.memory": "8192", "team": "shop"}
    allocatable = {"cpu": "4", **{key.replace("_", "/"): each for key, each in devices.items()}}
    api.put(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}, "status": {"allocatable": allocatable}})


def pod(api: FakeApiServer, name: str, node: str = "", gpus: int = 1, phase: str = "Running") -> None:
    container = {"name": "main", "resources": {"requests": {GPU: str(gpus)} if gpus else {}}}
    spec = {"containers": [container], "nodeName": node}
    api.put(f"{PODS}/{name}", {"metadata": {"uid": name}, "status": {"phase": phase}, "spec": spec})


async def test_a_node_shows_its_devices_and_who_has_them(api: FakeApiServer) -> None:
    node(api, "edge-1", **{"nvidia.com_gpu": "2"})
    node(api, "plain")
    pod(api, "one", "edge-1")
    pod(api, "none", "edge-1", gpus=0)
    async with following(api) as devices:
        [(name, found)] = devices.current.nodes.items()
        assert (name, dict(found.allocatable), set(found.pods)) == ("edge-1", {GPU: 2}, {"one"})
        assert dict(found.labels) == {"nvidia.com/gpu.memory": "8192"}
        before = devices.current.nodes
        ready = {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}
        api.put("/api/v1/nodes/plain", {"metadata": {}, "status": ready})
        await until(lambda: any(each.model.ready for each in devices.nodes.current.values()))
        assert devices.current.nodes is before, "a node's status is written all the time"


@pytest.mark.parametrize(
    "requests", [{"example.com/foo": "100E"}, {"gpu.intel.com/i915": "1", "gpu.intel.com/memory.max": "0"}]
)
async def test_whatever_amount_a_pod_requests_the_devices_are_followed(
    api: FakeApiServer, requests: dict[str, str]
) -> None:
    status = {"allocatable": {"gpu.intel.com/i915": "2"}}
    api.put("/api/v1/nodes/edge-1", {"metadata": {"labels": {"gpu.intel.com/cards": "card0.card1"}}, "status": status})
    spec = {"containers": [{"name": "main", "resources": {"requests": requests}}], "nodeName": "edge-1"}
    api.put(f"{PODS}/a", {"metadata": {"uid": "a"}, "status": {"phase": "Running"}, "spec": spec})
    async with following(api) as devices:
        await until(lambda: devices.current.nodes["edge-1"].cards)
        assert set(devices.current.nodes["edge-1"].pods) == {"a"}


async def test_a_pod_whose_annotation_is_taken_away_asks_nothing(api: FakeApiServer) -> None:
    node(api, "edge-1", **{"nvidia.com_gpu": "2"})
    bound: dict[str, Any] = {"status": {"phase": "Running"}, "spec": {"nodeName": "edge-1", "containers": []}}
    api.put(f"{PODS}/a", {"metadata": {"uid": "a", "annotations": {"leadsman.dev/bandwidth": "2Gbit"}}, **bound})
    async with following(api) as devices:
        assert devices.current.nodes["edge-1"].pods
        api.put(f"{PODS}/a", {"metadata": {"uid": "a"}, **bound})
        await until(lambda: not devices.current.nodes["edge-1"].pods)


async def test_the_cards_of_a_node_are_computed_before_a_request_asks_for_them(api: FakeApiServer) -> None:
    node(api, "edge-1", **{"nvidia.com_gpu": "2"})
    async with following(api) as devices:
        await until(lambda: GPU in devices.current.nodes["edge-1"].cards)
        pod(api, "one", "edge-1")
        await until(lambda: devices.current.nodes["edge-1"].pods)
        await until(lambda: GPU in devices.current.nodes["edge-1"].cards)


async def test_a_pod_is_settled_when_it_is_bound_or_ended(api: FakeApiServer) -> None:
    node(api, "edge-1", **{"nvidia.com_gpu": "2"})
    pod(api, "one", phase="Pending")
    async with following(api) as devices:
        assert not devices.is_settled("one")
        assert not devices.is_settled("never-seen")
        pod(api, "one", "edge-1")
        await until(lambda: devices.is_settled("one"))
        assert set(devices.current.nodes["edge-1"].pods) == {"one"}
        api.delete(f"{PODS}/one")
        await until(lambda: not devices.current.nodes["edge-1"].pods)
        assert devices.is_settled("one")


async def test_of_pods_reserved_before_a_start_those_that_are_gone_have_ended(api: FakeApiServer) -> None:
    """Their promises stay in etcd for two minutes, and a new process never sees these pods go."""
    pod(api, "waits", phase="Pending")
    async with following(api, "waits", "gone") as devices:
        settled = {uid: devices.is_settled(uid) for uid in ("waits", "gone", "reserved-later")}
    assert settled == {"waits": False, "gone": True, "reserved-later": False}


async def test_what_claims_ask_is_followed_and_counted_before_a_request(api: FakeApiServer) -> None:
    dra = "/apis/resource.k8s.io/v1"
    api.group_versions.add(dra)
    api.put("/api/v1/nodes/edge-1", {"metadata": {}, "status": {}})
    api.put(f"{dra}/deviceclasses/gpu", {"metadata": {}, "spec": {"extendedResourceName": "example.com/gpu"}})
    pool = {"name": "edge-1", "generation": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "edge-1", "pool": pool, "devices": [{"name": "gpu-0"}]}
    api.put(f"{dra}/resourceslices/edge-1", {"metadata": {}, "spec": spec})
    exactly = {"requests": [{"name": "gpus", "exactly": {"deviceClassName": "gpu"}}]}
    template = {"metadata": {}, "spec": {"spec": {"devices": exactly}}}
    api.put(f"{dra}/namespaces/shop/resourceclaimtemplates/train", template)
    api.put(f"{dra}/namespaces/shop/resourceclaims/train-x7", {"metadata": {}, "spec": {"devices": exactly}})
    async with following(api) as devices:
        await until(lambda: "shop/train-x7" in devices.current.asked.claims and devices.current.nodes)
        inputs = devices.current
        await until(lambda: devices.current.nodes["edge-1"].selected == {"class gpu": DeviceCount(1, 1)})
        assert inputs.asked.extended == {"example.com/gpu": "class gpu"}
        result = {"driver": "gpu.example.com", "pool": "edge-1", "device": "gpu-0"}
        given = {"allocation": {"devices": {"results": [result]}}}
        claim = {"metadata": {}, "spec": {"devices": exactly}, "status": given}
        api.put(f"{dra}/namespaces/shop/resourceclaims/train-x7", claim)
        await until(lambda: devices.current.nodes["edge-1"].selected == {"class gpu": DeviceCount(1, 0)})
        assert set(devices.current.asked.claims) == set(), "it has what it asked for"
        assert set(devices.current.asked.templates) == {"shop/train"}


# Which devices of drivers are which piece of hardware.

DRIVER = "gpu.nvidia.com"


def published(generation: int, **devices: dict[str, Any]) -> ResourceSliceObject:
    listed = [{"name": name.replace("_", "-"), "attributes": attributes} for name, attributes in devices.items()]
    return slice_of("n1", generation, driver=DRIVER, devices=listed)


def text(value: str) -> dict[str, str]:
    return {"string": value}


def test_by_uuid_with_and_without_the_driver_s_domain_and_by_that_of_the_whole() -> None:
    one = published(
        1,
        gpu_0={"uuid": text("GPU-a"), "index": {"int": 0}},
        gpu_1={f"{DRIVER}/uuid": text("GPU-b")},
        gpu_2_mig_1={"uuid": text("MIG-c"), "parentUUID": text("GPU-c")},
        nameless={"uuid": {"bool": True}},
    )
    found = {uuid: [each.device for each in devices] for uuid, devices in devices_by_uuid([one]).items()}
    assert found == {"GPU-a": ["gpu-0"], "GPU-b": ["gpu-1"], "GPU-c": ["gpu-2-mig-1"], "MIG-c": ["gpu-2-mig-1"]}


def test_of_a_pool_the_newest_generation_counts() -> None:
    old, new = published(1, gpu_0={"uuid": text("GPU-a")}), published(2, gpu_9={"uuid": text("GPU-a")})
    assert devices_by_uuid([new, old]) == {"GPU-a": [DraDevice(DRIVER, "n1", "gpu-9")]}
