"""With the component's own rights on a real kube-apiserver, where KUBEBUILDER_ASSETS names one, with the gate of
DeviceTaintRules on and off. What Prometheus says is the test's; the devices are ResourceSlices of no driver."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from controller.device_health import DeviceHealthKeeper
from controller.keeper import NodeCache
from leadsman.cluster.devices.node_devices import ROW_REMAP_FAILURE, DeviceReading
from leadsman.decision.policy import DeviceHealthPolicy, DeviceTaintEffect
from leadsman.kube.access import ApiAccess
from leadsman.kube.events import EventWriter
from leadsman.kube.listing import ListOptions
from leadsman.kube.names import UNHEALTHY_DEVICES_KEY
from leadsman.kube.objects import PartialObjectMetadata
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import DEVICE_TAINT_RULES, NODES
from leadsman.sources.telemetry.telemetry_sources import TelemetrySettings
from tests.controller.followed import tools
from tests.controller.real_cluster import controller_of, granted_rights, real_cluster, used_rights
from tests.testbed.background import running
from tests.testbed.kube_apiserver import KubeApiServer
from tests.waiting import until

pytestmark = pytest.mark.slow

GRANTED = ("controller/rbac", "device-health/rbac")
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
DRIVER, CARDS = "gpu.example.com", 4
POLICY = DeviceHealthPolicy(hold_seconds=10.0, heal_seconds=60.0)
VERSION = DEVICE_TAINT_RULES.api_version


@contextmanager
def api_server(binaries: Path, folder: Path, flags: Sequence[str]) -> Iterator[KubeApiServer]:
    """With node n1, its cards of a driver, and the roles of the components controller and device-health."""
    with real_cluster(binaries, folder, *GRANTED, nodes=["n1"], flags=flags) as api:
        minor = int(api.call("GET", "/version")["minor"].rstrip("+"))
        if minor < 36:
            pytest.skip(f"the API server is of Kubernetes 1.{minor}; {VERSION} needs 1.36")
        devices = [
            {"name": f"gpu-{number}", "attributes": {"uuid": {"string": f"GPU-{number}"}, "index": {"int": number}}}
            for number in range(CARDS)
        ]
        pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": devices}
        api.call("POST", SLICES, {"metadata": {"name": "n1"}, "spec": spec})
        yield api


class Health:
    """A keeper on the real API server; the test says what is measured, and what time it is."""

    def __init__(self, keeper: DeviceHealthKeeper, recorder: EventWriter, policy: list[DeviceHealthPolicy]) -> None:
        self.keeper, self.recorder, self.policy, self.now = keeper, recorder, policy, 1_000.0

    async def measure(self, *faulty: str, seconds: float = 1.0) -> None:
        """Goes on by that much time with these devices faulty and the others not, judging every second."""
        for _ in range(int(seconds)):
            self.now += 1.0
            uuids = [f"GPU-{number}" for number in range(CARDS)]
            self.keeper.metrics.current = {
                uuid: DeviceReading("n1", {ROW_REMAP_FAILURE: float(uuid in faulty)}, self.now) for uuid in uuids
            }
            await self.keeper.turn()


@asynccontextmanager
async def keeping(api: KubeApiServer, dry_run: bool = False) -> AsyncIterator[Health]:
    async with controller_of(api) as (client, recorder):
        policy = [POLICY]
        nodes = Reflector(client, ListOptions(NODES, metadata_only=True), PartialObjectMetadata)
        telemetry = TelemetrySettings(("prometheus",), client.access, ApiAccess("http://127.0.0.1:9"))
        given = tools(client, None if dry_run else recorder, clock=lambda: health.now)
        keeper = DeviceHealthKeeper(given, telemetry, NodeCache(nodes), lambda: policy[0])
        health = Health(keeper, recorder, policy)
        async with running(keeper.rules.reflector.run(), keeper.slices.run(), nodes.run(), recorder.run()):
            await until(lambda: keeper.rules.is_ready and keeper.slices.loaded.is_set() and nodes.loaded.is_set())
            yield health


def rules(api: KubeApiServer) -> list[dict[str, Any]]:
    listed = api.call("GET", f"/apis/{VERSION}/devicetaintrules")["items"]
    return [each["spec"] for each in listed]


def effects(health: Health) -> list[str]:
    """As the keeper's watch shows them."""
    return [rule.effect for rule in health.keeper.rules.rules or ()]


async def test_a_faulty_device_alone_is_tainted_first_without_effect_then_with_the_policy_s_and_freed_when_healed(
    kubernetes_binaries: Path, tmp_path: Path
) -> None:
    gates = (
        "--feature-gates=DRADeviceTaints=true,DRADeviceTaintRules=true",
        "--runtime-config=resource.k8s.io/v1beta2=true",
    )
    with api_server(kubernetes_binaries, tmp_path, gates) as api:
        async with keeping(api, dry_run=True) as health:
            await health.measure("GPU-2", seconds=12)
            assert health.keeper.page()["actions"]
            assert rules(api) == []
        async with keeping(api) as health:
            await health.measure("GPU-2", seconds=9)
            assert rules(api) == [], "not for long enough"
            await health.measure("GPU-2", seconds=2)
            [rule] = rules(api)
            assert rule["deviceSelector"] == {"driver": DRIVER, "pool": "n1", "device": "gpu-2"}
            assert (rule["taint"]["value"], rule["taint"]["effect"]) == ("row-remap-failure", "None")
            await until(lambda: effects(health) == ["None"])
            await health.measure("GPU-2", seconds=12)
            assert [each["taint"]["effect"] for each in rules(api)] == ["NoSchedule"]
        async with keeping(api) as successor:
            await until(lambda: effects(successor) == ["NoSchedule"])
            successor.policy[0] = structs.replace(POLICY, effect=DeviceTaintEffect.NO_EXECUTE)
            await successor.measure("GPU-2")
            assert [each["taint"]["effect"] for each in rules(api)] == ["NoExecute"], "only as the policy says"
            await until(lambda: effects(successor) == ["NoExecute"])
            await successor.measure(seconds=59)
            assert len(rules(api)) == 1
            await successor.measure(seconds=3)
            assert rules(api) == []
            await until(lambda: successor.recorder.written == 2)
            assert successor.recorder.dropped == 0
        assert UNHEALTHY_DEVICES_KEY not in api.call("GET", "/api/v1/nodes/n1")["metadata"].get("labels", {})
    assert used_rights(tmp_path) <= granted_rights(*GRANTED)


async def test_without_the_gate_the_node_is_labelled_and_the_label_is_taken_off_again(
    kubernetes_binaries: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gates = ("--feature-gates=DRADeviceTaintRules=false",)
    with api_server(kubernetes_binaries, tmp_path, gates) as api:
        async with keeping(api) as health:
            assert health.keeper.rules.rules is None
            assert "cannot watch devicetaintrules" in caplog.text
            await health.measure("GPU-1", "GPU-3", seconds=25)
            meta = api.call("GET", "/api/v1/nodes/n1")["metadata"]
            assert meta["labels"][UNHEALTHY_DEVICES_KEY] == "1", "one of four may always be marked, and no more"
            assert meta["annotations"][UNHEALTHY_DEVICES_KEY] == "GPU-1"
            assert "at most 1 may be" in health.keeper.page()["withheld"]["GPU-3"]
            await health.measure(seconds=62)
            assert UNHEALTHY_DEVICES_KEY not in api.call("GET", "/api/v1/nodes/n1")["metadata"].get("labels", {})
    assert used_rights(tmp_path) <= granted_rights(*GRANTED)
