"""Which devices of drivers are which piece of hardware."""

from typing import Any

from leadsman.cluster.devices.monitored import DraDevice
from leadsman.kube.decoding import decode_json
from leadsman.sources.cluster.device_objects import ResourceSliceObject
from leadsman.sources.telemetry.device_metrics import devices_by_uuid
from tests.leadsman.sources.cluster.test_claim_devices import encoded

DRIVER = "gpu.nvidia.com"


def published(generation: int, **devices: dict[str, Any]) -> ResourceSliceObject:
    listed = [{"name": name.replace("_", "-"), "attributes": attributes} for name, attributes in devices.items()]
    pool = {"name": "n1", "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": listed}
    return decode_json(encoded({"metadata": {"name": f"s{generation}"}, "spec": spec}), ResourceSliceObject)


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
