"""Events about plugins: on the extender's own pod, when one goes off and when it answers again, and not too many."""

import asyncio

from extender.plugins.host import EVENTS_AT_ONCE, PluginEvents
from leadsman.decision.model import CandidateNodes, PodInfo
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.objects import ObjectReference
from leadsman.testbed.api_objects import parse_path
from tests.extender.plugins.conftest import NODES, Hosts, policy
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

OWN_POD = ObjectReference("Pod", "leadsman", "leadsman-extender-0", "uid-1")
EVENTS = "/apis/events.k8s.io/v1/namespaces/leadsman/events"


async def test_the_pod_says_which_plugin_is_off_and_why_but_not_a_hundred_times(api: FakeApiServer) -> None:
    async with ApiClient(ApiAccess(api.url)) as client:
        events = PluginEvents(client, OWN_POD)
        async with running(events.writer.run()):
            for _ in range(50):
                events.plugin_changed("loops", "decisions go on without it: no answer within its deadline")
                events.plugin_changed("loops", "")
            await until(lambda: events.writer.written == EVENTS_AT_ONCE)
    off, again, *_ = api.objects.all(parse_path(EVENTS))
    assert (off["reason"], off["type"], off["reportingController"]) == ("PluginOff", "Warning", "leadsman.dev/extender")
    assert off["note"].endswith("decisions go on without it: no answer within its deadline")
    assert (off["regarding"]["name"], off["regarding"]["uid"]) == ("leadsman-extender-0", "uid-1")
    assert (again["reason"], again["type"]) == ("PluginAnswers", "Normal")


async def test_the_host_says_once_that_a_plugin_is_off(hosts: Hosts) -> None:
    changes = list[tuple[str, str]]()
    async with hosts(policy(scores="raises", more=", deadline_ms: 100")) as hosted:
        hosted.host._on_change = lambda name, problem: changes.append((name, problem))
        while not hosted.plugins["raises"].is_off:
            inputs = hosted.inputs()
            await asyncio.to_thread(hosted.host.score_nodes, PodInfo("shop", "web"), CandidateNodes(NODES), inputs)
        await until(lambda: changes)
        hosted.host.reconcile()
        assert changes == [("raises", f"decisions go on without it: {hosted.plugins['raises'].problem}")]


async def test_a_plugin_that_was_off_counts_as_active_once_it_answers_and_not_once_it_runs(hosts: Hosts) -> None:
    async with hosts(policy(scores="raises", more=", deadline_ms: 100")) as hosted:
        plugin = hosted.plugins["raises"]
        while not plugin.is_off:
            inputs = hosted.inputs()
            await asyncio.to_thread(hosted.host.score_nodes, PodInfo("shop", "web"), CandidateNodes(NODES), inputs)
        plugin._off_until = 0.0  # the minute is over
        await until(lambda: plugin.is_active)
        assert [each.value for each in next(hosted.host.families()).samples] == [0.0]
