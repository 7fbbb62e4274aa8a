"""The devices of nodes, from a fake API server on a real socket: cards, who has them, and devices of claims."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from leadsman.cluster.devices.node_devices import DriverDevices
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.decoding import decode_json
from leadsman.sources.cluster.device_follower import DeviceFollower
from leadsman.sources.cluster.device_objects import ResourceClaimObject, ResourceSliceObject, drivers_by_node
from leadsman.testbed.fake_api_server import FakeApiServer

if TYPE_CHECKING:
    from tests.conftest import Until

PODS = "/api/v1/namespaces/shop/pods"
GPU = "nvidia.com/gpu"


@pytest.fixture
async def api() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as one:
        yield one


@asynccontextmanager
async def following(api: FakeApiServer, until: "Until", *promised: str) -> AsyncIterator[DeviceFollower]:
    async def promised_uids() -> tuple[str, ...]:
        return promised

    async with ApiClient(ApiAccess(api.url), deadline_seconds=2.0) as client:
        one = DeviceFollower(client, promised_uids=promised_uids)
        task = asyncio.create_task(one.run())
        try:
            await until(lambda: one.nodes.loaded.is_set() and one.pods.loaded.is_set())
            yield one
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def node(api: FakeApiServer, name: str, **devices: str) -> None:
    labels = {"nvidia.com/gpu.memory": "8192", "team": "shop"}
    allocatable = {"cpu": "4", **{key.replace("_", "/"): each for key, each in devices.items()}}
    api.put(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}, "status": {"allocatable": allocatable}})


def pod(
    api: FakeApiServer, name: str, node: str = "", gpus: int = 1, phase: str = "Running", bandwidth: str = ""
) -> None:
    annotations = {"leadsman.dev/bandwidth": bandwidth} if bandwidth else {}
    container = {"name": "main", "resources": {"requests": {GPU: str(gpus)} if gpus else {}}}
    body: dict[str, Any] = {"metadata": {"uid": name, "annotations": annotations}, "status": {"phase": phase}}
    api.put(f"{PODS}/{name}", {**body, "spec": {"containers": [container], "nodeName": node}})


async def test_a_node_shows_its_devices_and_who_has_them(api: FakeApiServer, until: "Until") -> None:
    node(api, "edge-1", **{"nvidia.com_gpu": "2"})
    node(api, "plain")
    pod(api, "one", "edge-1")
    pod(api, "none", "edge-1", gpus=0)
    async with following(api, until) as devices:
        [(name, found)] = devices.current.nodes.items()
        assert (name, dict(found.allocatable), set(found.pods)) == ("edge-1", {GPU: 2}, {"one"})
        assert dict(found.labels) == {"nvidia.com/gpu.memory": "8192"}
        assert devices.current is devices.current, "nothing changed"


async def test_the_cards_of_a_node_are_computed_before_a_request_asks_for_them(
    api: FakeApiServer, until: "Until"
) -> None:
    node(api, "edge-1", **{"nvidia.com_gpu": "2"})
    async with following(api, until) as devices:
        await until(lambda: GPU in devices.current.nodes["edge-1"].cards)
        pod(api, "one", "edge-1")
        await until(lambda: devices.current.nodes["edge-1"].pods)
        await until(lambda: GPU in devices.current.nodes["edge-1"].cards)


async def test_a_pod_is_settled_when_it_is_bound_or_ended(api: FakeApiServer, until: "Until") -> None:
    node(api, "edge-1", **{"nvidia.com_gpu": "2"})
    pod(api, "one", phase="Pending")
    async with following(api, until) as devices:
        assert not devices.is_settled("one")
        assert not devices.is_settled("never-seen")
        pod(api, "one", "edge-1")
        await until(lambda: devices.is_settled("one"))
        assert set(devices.current.nodes["edge-1"].pods) == {"one"}
        api.delete(f"{PODS}/one")
        await until(lambda: not devices.current.nodes["edge-1"].pods)
        assert devices.is_settled("one")


async def test_of_pods_promised_before_a_start_those_that_are_gone_have_ended(
    api: FakeApiServer, until: "Until"
) -> None:
    """Their promises stay in etcd for two minutes, and a new process never sees these pods go."""
    pod(api, "waits", phase="Pending")
    async with following(api, until, "waits", "gone") as devices:
        settled = {uid: devices.is_settled(uid) for uid in ("waits", "gone", "promised-later")}
    assert settled == {"waits": False, "gone": True, "promised-later": False}


async def test_a_bound_pod_with_a_value_that_cannot_be_read_keeps_its_resources(
    api: FakeApiServer, until: "Until"
) -> None:
    node(api, "edge-1", **{"nvidia.com_gpu": "2"})
    pod(api, "one", "edge-1", bandwidth="2GB")
    async with following(api, until) as devices:
        asked = devices.current.nodes["edge-1"].pods["one"]
        assert (asked.amount(GPU), asked.bandwidth_bits) == (1, None)


async def test_before_the_first_list_nothing_can_be_promised() -> None:
    devices = DeviceFollower(ApiClient(ApiAccess("http://127.0.0.1:1")))
    assert "were not listed yet" in devices.problem()


def encoded(body: Any) -> bytes:
    return json.dumps(body).encode()


def resource_slice(node: str, devices: int, generation: int = 1, tainted: int = 0) -> Any:
    listed: list[dict[str, Any]] = [{"name": f"gpu-{number}"} for number in range(devices)]
    for number in range(tainted):
        listed[number]["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
    pool = {"name": node, "generation": generation}
    spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": node, "devices": listed}
    return decode_json(encoded({"metadata": {"name": f"{node}-{generation}"}, "spec": spec}), ResourceSliceObject)


def claim(*devices: str, node: str = "edge-1") -> Any:
    results = [{"driver": "gpu.example.com", "pool": node, "device": device} for device in devices]
    status = {"allocation": {"devices": {"results": results}}} if devices else {}
    return decode_json(encoded({"metadata": {"name": "c"}, "status": status}), ResourceClaimObject)


def test_a_device_is_free_unless_a_claim_has_it_or_a_taint_keeps_pods_off() -> None:
    found = drivers_by_node([resource_slice("edge-1", 8, tainted=1)], [claim("gpu-3", "gpu-4"), claim()])
    assert found == {"edge-1": {"gpu.example.com": DriverDevices(8, 5)}}


def test_of_a_pool_the_newest_generation_counts() -> None:
    found = drivers_by_node([resource_slice("edge-1", 8, 1), resource_slice("edge-1", 4, 2)], [])
    assert found == {"edge-1": {"gpu.example.com": DriverDevices(4, 4)}}


def test_access_for_administration_takes_no_device() -> None:
    given = {"driver": "gpu.example.com", "pool": "edge-1", "device": "gpu-0"}
    results = [{**given, "adminAccess": True}, {**given, "device": "gpu-1", "adminAccess": False}]
    status = {"allocation": {"devices": {"results": results}}}
    one = decode_json(encoded({"metadata": {"name": "monitor"}, "status": status}), ResourceClaimObject)
    found = drivers_by_node([resource_slice("edge-1", 8)], [one])
    assert found == {"edge-1": {"gpu.example.com": DriverDevices(8, 7)}}


def divided(node: str = "edge-1") -> list[ResourceSliceObject]:
    """A card of 40 GiB as a whole, as two halves and as one quarter, of which what fits beside each other is free."""

    def taking(name: str, memory: str) -> dict[str, Any]:
        counters = {"memory": {"value": memory}}
        return {"name": name, "consumesCounters": [{"counterSet": "gpu-0", "counters": counters}]}

    pool = {"driver": "gpu.example.com", "nodeName": node, "pool": {"name": node, "generation": 1}}
    parts = [taking("whole", "40Gi"), taking("half-0", "20Gi"), taking("half-1", "20Gi"), taking("quarter", "10Gi")]
    shared = [{"name": "gpu-0", "counters": {"memory": {"value": "40Gi"}}}]
    return [
        decode_json(encoded({"metadata": {"name": name}, "spec": {**pool, **spec}}), ResourceSliceObject)
        for name, spec in (("parts", {"devices": parts}), ("counters", {"sharedCounters": shared}))
    ]


@pytest.mark.parametrize(
    ("given", "free"),
    [((), 4), (("whole",), 0), (("half-0",), 2), (("half-0", "half-1"), 0), (("quarter",), 2)],
)
def test_a_part_of_a_card_is_free_while_the_card_has_left_what_it_takes(given: tuple[str, ...], free: int) -> None:
    found = drivers_by_node(divided(), [claim(*given)])
    assert found == {"edge-1": {"gpu.example.com": DriverDevices(4, free)}}


def test_a_device_that_claims_share_stays_free() -> None:
    device = {"name": "gpu-3", "allowMultipleAllocations": True}
    spec = {"driver": "gpu.example.com", "nodeName": "edge-1", "pool": {"name": "edge-1"}, "devices": [device]}
    one = decode_json(encoded({"metadata": {"name": "s"}, "spec": spec}), ResourceSliceObject)
    assert drivers_by_node([one], [claim("gpu-3")]) == {"edge-1": {"gpu.example.com": DriverDevices(1, 1)}}
