"""Events about plugins: on the extender's own pod, when one goes off and when it answers again, and not too many."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from extender.plugins.events import PLUGIN_EVENTS_AT_ONCE, PluginEvents
from leadsman.decision.model import CandidateNodes, PodInfo
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.objects import ObjectReference
from leadsman.testbed.api_objects import parse_path
from leadsman.testbed.fake_api_server import FakeApiServer
from tests.extender.plugins.conftest import NODES, Hosted, policy

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.extender.plugins.conftest import Hosts

OWN_POD = ObjectReference("Pod", "leadsman", "leadsman-extender-0", "uid-1")


@pytest.fixture
async def api() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as server:
        yield server


@pytest.fixture
async def events(api: FakeApiServer) -> AsyncIterator[PluginEvents]:
    """Which are written until the test ends."""
    async with ApiClient(ApiAccess(api.url)) as client:
        one = PluginEvents(client, OWN_POD)
        tasks = [asyncio.create_task(loop) for loop in one.loops().values()]
        yield one
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_pod_says_which_plugin_is_off_and_why(
    api: FakeApiServer, events: PluginEvents, until: "Until"
) -> None:
    events.plugin_changed("loops", "no answer within its deadline")
    events.plugin_changed("loops", "")
    await until(lambda: events.writer and events.writer.written == 2)
    off, again = api.objects.all(parse_path("/apis/events.k8s.io/v1/namespaces/leadsman/events"))
    assert (off["reason"], off["type"], off["reportingController"]) == ("PluginOff", "Warning", "leadsman.dev/extender")
    assert off["note"].endswith("decisions go on without it: no answer within its deadline")
    assert (off["metadata"]["namespace"], off["regarding"]["name"], off["regarding"]["uid"]) == (
        "leadsman",
        "leadsman-extender-0",
        "uid-1",
    )
    assert (again["reason"], again["type"]) == ("PluginAnswers", "Normal")


async def test_one_that_goes_off_and_on_writes_few(events: PluginEvents, until: "Until") -> None:
    for _ in range(50):
        events.plugin_changed("loops", "late")
        events.plugin_changed("loops", "")
    events.plugin_changed("other", "late")
    await until(lambda: events.writer and events.writer.written == PLUGIN_EVENTS_AT_ONCE + 1)


async def test_an_extender_that_does_not_know_its_pod_writes_none() -> None:
    events = PluginEvents(None, None)
    events.plugin_changed("loops", "late")
    assert events.loops() == {}


async def test_the_host_says_once_that_a_plugin_is_off(hosts: "Hosts") -> None:
    changes = list[tuple[str, str]]()
    async with hosts(policy(scores="raises")) as hosted:
        hosted.host._on_change = lambda name, problem: changes.append((name, problem))
        await hosted.until_active()
        await _fail_until_off(hosted)
        await hosted.until(lambda: changes)
        hosted.host.reconcile()
    assert changes == [("raises", "RuntimeError: a stranger's fault")]


async def _fail_until_off(hosted: Hosted) -> None:
    while not hosted.plugins["raises"].health.off_until:
        await asyncio.to_thread(hosted.host.score_nodes, PodInfo("shop", "web"), CandidateNodes(NODES), hosted.inputs())
        await asyncio.sleep(0)
