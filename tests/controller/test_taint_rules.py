"""Which version of DeviceTaintRules is written, and how; by answers of API servers of several releases."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import web

from controller.device_health import TaintRuleClient, rule_body, rule_name
from leadsman.cluster.devices.monitored import DraDevice
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.resources import DEVICE_TAINT_RULES
from leadsman.planning.device_health_plan import SetTaint, TaintEffect

if TYPE_CHECKING:
    from tests.conftest import Until

GPU = DraDevice("gpu.example.com", "n1", "gpu-0")
TAINT = SetTaint(GPU, "GPU-a", "n1", TaintEffect.NONE, "xid-79", "the driver reports XID 79")
NO_NONE = (
    'DeviceTaintRule "x" is invalid: spec.taint.effect: Unsupported value: "None": supported: "NoExecute", "NoSchedule"'
)


class OldApiServer:
    """Lists the resources of `versions`, and refuses the effect None, as Kubernetes 1.33 and 1.34 do."""

    def __init__(self, versions: dict[str, Sequence[str]]) -> None:
        self.versions, self.written = versions, list[tuple[str, Any]]()

    async def handle(self, request: web.Request) -> web.Response:
        version = request.path.removeprefix("/apis/").removesuffix("/devicetaintrules")
        if version not in self.versions:
            return web.json_response({"message": "404 page not found"}, status=404)
        if not request.path.endswith("devicetaintrules"):
            return web.json_response({"resources": [{"name": name} for name in self.versions[version]]})
        if request.method == "POST":
            body = await request.json()
            self.written.append((version, body))
            refused = body["spec"]["taint"]["effect"] == "None"
            answer = {"message": NO_NONE, "code": 422} if refused else body
            return web.json_response(answer, status=422 if refused else 201)
        if "watch" in request.query:
            await asyncio.Event().wait()
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})


@asynccontextmanager
async def following(api: OldApiServer, until: "Until") -> AsyncIterator[TaintRuleClient]:
    runner = web.ServerRunner(web.Server(api.handle, handler_cancellation=True), shutdown_timeout=0.1)  # type: ignore[arg-type]
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with ApiClient(ApiAccess(f"http://127.0.0.1:{runner.addresses[0][1]}")) as client:
        rules = TaintRuleClient(client)
        task = asyncio.create_task(rules.run())
        await until(lambda: rules.is_ready)
        yield rules
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await runner.cleanup()


@pytest.mark.parametrize(
    ("versions", "written"),
    [
        (
            {"resource.k8s.io/v1beta2": ["devicetaintrules"], "resource.k8s.io/v1alpha3": ["devicetaintrules"]},
            "v1beta2",
        ),
        ({"resource.k8s.io/v1beta2": ["resourceslices"], "resource.k8s.io/v1alpha3": ["devicetaintrules"]}, "v1alpha3"),
        ({"resource.k8s.io/v1beta2": ["resourceslices"]}, ""),
        ({}, ""),
    ],
)
async def test_the_newest_version_that_has_the_rules_is_used(
    versions: dict[str, Sequence[str]], written: str, until: "Until"
) -> None:
    api = OldApiServer(versions)
    async with following(api, until) as rules:
        assert (rules.rules is None) is (written == "")
        await rules.write(msgspec.structs.replace(TAINT, effect=TaintEffect.NO_SCHEDULE))
    assert [version.rpartition("/")[2] for version, _ in api.written] == ([written] if written else [])


async def test_an_api_server_that_does_not_take_the_effect_none_is_remembered(until: "Until") -> None:
    async with following(OldApiServer({"resource.k8s.io/v1alpha3": ["devicetaintrules"]}), until) as rules:
        assert rules.offers_no_effect
        assert not await rules.write(TAINT)
        assert not rules.offers_no_effect


def test_a_rule_selects_one_device_in_full() -> None:
    body = rule_body(TAINT, DEVICE_TAINT_RULES[0])
    assert body["spec"]["deviceSelector"] == {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    assert body["metadata"]["labels"]["leadsman.dev/unhealthy-device"] == "GPU-a"


def test_devices_that_are_alike_have_rules_of_their_own() -> None:
    others = [DraDevice("gpu.example.com", "n1", "gpu-1"), DraDevice("gpu.example.com", "n2", "gpu-0")]
    assert len({rule_name(each) for each in (GPU, *others)}) == 3
