"""Devices of claims: which are free, which are selected; counting changes one by one equals counting all at once."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from leadsman.cluster.devices.node_devices import ClaimRequests, DeviceCount, RequestedWay
from leadsman.kube.decoding import decode_json
from leadsman.kube.object_changes import ObjectChange, object_key, view_from_list
from leadsman.sources.cluster.device_follower import MAX_SELECTIONS, ClaimDevices
from leadsman.sources.cluster.device_objects import (
    DeviceClassObject,
    ResourceClaimObject,
    ResourceClaimTemplateObject,
    ResourceSliceObject,
)

Counts = dict[str, dict[str, DeviceCount]]


def added(objects: Sequence[Any]) -> list[ObjectChange[Any]]:
    return view_from_list({}, objects)[1]


def counting(
    slices: Sequence[Any], claims: Sequence[Any] = (), classes: Sequence[Any] = (), templates: Sequence[Any] = ()
) -> ClaimDevices:
    devices = ClaimDevices()
    devices.claims_changed(added(claims))
    devices.templates_changed(added(templates))
    devices.classes_changed(added(classes))
    devices.slices_changed(added(slices))
    devices.update()
    return devices


def drivers(slices: Sequence[Any], claims: Sequence[Any]) -> Counts:
    devices = counting(slices, claims)
    return {node: dict(devices.drivers_of(node)) for node in ("edge-1", "edge-2") if devices.drivers_of(node)}


def encoded(body: Any) -> bytes:
    return json.dumps(body).encode()


def slice_of(node: str, generation: int = 1, name: str = "s", driver: str = "gpu.example.com", **spec: Any) -> Any:
    pool = {"name": node, "generation": generation}
    body = {"driver": driver, "pool": pool, "nodeName": node, **spec}
    return decode_json(encoded({"metadata": {"name": f"{name}-{generation}"}, "spec": body}), ResourceSliceObject)


def resource_slice(node: str, devices: int, generation: int = 1, tainted: int = 0) -> Any:
    listed: list[dict[str, Any]] = [{"name": f"gpu-{number}"} for number in range(devices)]
    for number in range(tainted):
        listed[number]["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
    return slice_of(node, generation, node, devices=listed)


def claim(*devices: str, node: str = "edge-1") -> Any:
    results = [{"driver": "gpu.example.com", "pool": node, "device": device} for device in devices]
    status = {"allocation": {"devices": {"results": results}}} if devices else {}
    return decode_json(
        encoded({"metadata": {"name": "-".join(devices) or "none"}, "status": status}), ResourceClaimObject
    )


def test_a_device_is_free_unless_a_claim_has_it_or_a_taint_keeps_pods_off() -> None:
    found = drivers([resource_slice("edge-1", 8, tainted=1)], [claim("gpu-3", "gpu-4"), claim()])
    assert found == {"edge-1": {"gpu.example.com": DeviceCount(8, 5)}}


def divided(node: str = "edge-1") -> list[Any]:
    """A card of 40 GiB as a whole, as two halves and as one quarter, of which what fits beside each other is free."""

    def taking(name: str, memory: str) -> dict[str, Any]:
        counters = {"memory": {"value": memory}}
        return {"name": name, "consumesCounters": [{"counterSet": "gpu-0", "counters": counters}]}

    parts = [taking("whole", "40Gi"), taking("half-0", "20Gi"), taking("half-1", "20Gi"), taking("quarter", "10Gi")]
    shared = [{"name": "gpu-0", "counters": {"memory": {"value": "40Gi"}}}]
    return [slice_of(node, name="parts", devices=parts), slice_of(node, name="counters", sharedCounters=shared)]


@pytest.mark.parametrize(
    ("given", "free"), [((), 4), (("whole",), 0), (("half-0",), 2), (("half-0", "half-1"), 0), (("quarter",), 2)]
)
def test_a_part_of_a_card_is_free_while_the_card_has_left_what_it_takes(given: tuple[str, ...], free: int) -> None:
    found = drivers(divided(), [claim(*given)])
    assert found == {"edge-1": {"gpu.example.com": DeviceCount(4, free)}}


def gpu(model: str, memory: str) -> dict[str, Any]:
    return {"attributes": {"model": {"string": model}}, "capacity": {"memory": {"value": memory}}}


def models(node: str, *devices: dict[str, Any]) -> Any:
    listed = [{"name": f"gpu-{number}", **device} for number, device in enumerate(devices)]
    return slice_of(node, name=f"{node}-of-models", devices=listed)


def device_class(name: str, *expressions: str, extended: str = "") -> Any:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    spec = {"selectors": selectors, "extendedResourceName": extended}
    return decode_json(encoded({"metadata": {"name": name}, "spec": spec}), DeviceClassObject)


def asking(*requests: dict[str, Any], name: str = "train") -> Any:
    spec = {"devices": {"requests": list(requests)}}
    return decode_json(encoded({"metadata": {"name": name, "namespace": "shop"}, "spec": spec}), ResourceClaimObject)


OURS = device_class("gpu", 'device.driver == "gpu.example.com"')
LARGE = 'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("40Gi"))'
MIXED = models("edge-1", gpu("a100", "80Gi"), gpu("a100", "80Gi"), gpu("t4", "16Gi"))
PREFER_LARGE = {
    "name": "gpu",
    "firstAvailable": [
        {"name": "large", "deviceClassName": "gpu", "selectors": [{"cel": {"expression": LARGE}}], "count": 2},
        {"name": "any", "deviceClassName": "gpu"},
    ],
}


def test_the_class_and_the_request_select_the_devices_of_each_way() -> None:
    devices = counting([MIXED], [asking(PREFER_LARGE)], [OURS])
    large = f"class gpu && {LARGE}"
    assert devices.claims["shop/train"] == ClaimRequests(
        ((RequestedWay("large", large, 2), RequestedWay("any", "class gpu", 1)),)
    )
    assert devices.selected_on("edge-1") == {large: DeviceCount(2, 2), "class gpu": DeviceCount(3, 3)}
    assert not devices.problems


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ({"deviceClassName": "gpu"}, (RequestedWay("gpus", "class gpu", 1),)),
        ({"deviceClassName": "gpu", "allocationMode": "All"}, (RequestedWay("gpus", "class gpu", None),)),
        (
            {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 4},
            (RequestedWay("gpus", "class gpu", 4),),
        ),
        ({"deviceClassName": "gpu", "adminAccess": True}, None),
    ],
)
def test_a_request_is_read_as_the_allocator_reads_it(way: dict[str, Any], expected: Any) -> None:
    devices = counting([], [asking({"name": "gpus", "exactly": way})])
    assert devices.claims["shop/train"].requests == ((expected,) if expected else ())


def test_a_selector_that_cannot_be_evaluated_is_named_with_its_reason() -> None:
    unread = {"name": "g", "exactly": {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": "device.x()"}}]}}
    unclassed = {"name": "g", "exactly": {"deviceClassName": "absent"}}
    devices = counting([MIXED], [asking(unread), asking(unclassed, name="other")], [OURS])
    assert devices.problems == {
        "class gpu && device.x()": "a selector cannot be evaluated here: device.x is not known here",
        "class absent": "DeviceClass absent does not exist, or is not seen",
    }


def test_a_class_stands_for_an_extended_resource() -> None:
    devices = counting([MIXED], classes=[device_class("gpu", extended="example.com/gpu"), device_class("plain")])
    assert devices.extended == {"example.com/gpu": "class gpu"}
    assert devices.selected_on("edge-1") == {"class gpu": DeviceCount(3, 3)}, "nobody asks for the other one"


def test_ways_to_select_are_bounded() -> None:
    names = [f"class-{number}" for number in range(MAX_SELECTIONS + 3)]
    claims = [asking({"name": "g", "exactly": {"deviceClassName": name}}, name=name) for name in names]
    devices = counting([MIXED], claims, list(map(device_class, names)))
    assert (len(devices.selected_on("edge-1")), len(devices.problems)) == (MAX_SELECTIONS, 3)


@pytest.mark.parametrize("seed", range(20))
def test_changes_counted_one_by_one_equal_counting_anew(seed: int) -> None:
    rng, devices = random.Random(seed), ClaimDevices()
    views: dict[str, dict[Any, Any]] = {"slices": {}, "claims": {}, "classes": {}, "templates": {}}
    for _ in range(60):
        kind, one = _any_object(rng)
        gone = rng.random() < 0.3
        after = {**views[kind], object_key(one.metadata): one}
        if gone:
            del after[object_key(one.metadata)]
        views[kind], changes = view_from_list(views[kind], after.values())
        getattr(devices, f"{kind}_changed")(changes)
        if rng.random() < 0.5:
            devices.update()
    devices.update()
    at_once = counting(**{kind: list(view.values()) for kind, view in views.items()})
    for node in ("edge-1", "edge-2"):
        assert devices.drivers_of(node) == at_once.drivers_of(node)
        assert devices.selected_on(node) == at_once.selected_on(node)
    assert (devices.claims, devices.templates) == (at_once.claims, at_once.templates)
    assert (devices.extended, devices.problems) == (at_once.extended, at_once.problems)
    assert devices._asked == at_once._asked, "a name that is gone takes no memory"


def _any_object(rng: random.Random) -> tuple[str, Any]:
    node = rng.choice(["edge-1", "edge-2"])
    match rng.randrange(5):
        case 0:
            return "slices", rng.choice([MIXED, resource_slice(node, rng.randrange(9), rng.randrange(1, 4))])
        case 1:
            return "classes", device_class(
                "gpu", *rng.sample([LARGE, "true", "broken("], 1), extended=rng.choice(["", "x/y"])
            )
        case 2:
            return "claims", asking(PREFER_LARGE, name=rng.choice("abc"))
        case 3:
            return "claims", claim(*rng.sample(["gpu-0", "gpu-1", "gpu-2"], rng.randrange(3)), node=node)
        case _:
            body = {
                "metadata": {"name": "t", "namespace": "shop"},
                "spec": {"spec": {"devices": {"requests": [PREFER_LARGE]}}},
            }
            return "templates", decode_json(encoded(body), ResourceClaimTemplateObject)
