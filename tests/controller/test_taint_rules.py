"""What a DeviceTaintRule says; how it is written is seen on a real API server (test_device_health_on_kubernetes)."""

from controller.device_health import rule_body, rule_name
from leadsman.cluster.devices.monitored import DraDevice
from leadsman.planning.device_health_plan import SetTaint, TaintEffect

GPU = DraDevice("gpu.example.com", "n1", "gpu-0")
TAINT = SetTaint(GPU, "GPU-a", "n1", TaintEffect.NONE, "xid-79", "the driver reports XID 79")


def test_a_rule_selects_one_device_in_full() -> None:
    body = rule_body(TAINT)
    assert body["spec"]["deviceSelector"] == {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    assert body["metadata"]["labels"]["leadsman.dev/unhealthy-device"] == "GPU-a"


def test_devices_that_are_alike_have_rules_of_their_own() -> None:
    others = [DraDevice("gpu.example.com", "n1", "gpu-1"), DraDevice("gpu.example.com", "n2", "gpu-0")]
    assert len({rule_name(each) for each in (GPU, *others)}) == 3
