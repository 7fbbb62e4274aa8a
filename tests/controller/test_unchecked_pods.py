"""Pods that were bound against their bound get one Event; what they were looked at is counted."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from controller.pods import UncheckedPodReporter
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.planning.bounded_pods import HOLD_SECONDS, BoundResult
from leadsman.testbed.api_objects import parse_path
from tests.controller.followed import tools
from tests.leadsman.planning.measured import measured
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

EVENTS = "/apis/events.k8s.io/v1/namespaces/shop/events"


def pod(node: str, labels: dict[str, str], **meta: Any) -> dict[str, Any]:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-22T10:00:00Z"}
    return {
        "metadata": {"labels": labels, "annotations": {"big": "x" * 1000}, **meta},
        "spec": {"nodeName": node, "containers": [{"name": "main"}]},
        "status": {"phase": "Running", "conditions": [scheduled]},
    }


class Sweeping:
    """A reporter that follows the API server, and the time."""

    def __init__(self, api: FakeApiServer, client: ApiClient, recorder: EventWriter | None) -> None:
        self.api, self.now = api, 100.0
        inputs = lambda: measured(self.now, {"edge-1": {"far": 80.0, "near": 5.0}})  # noqa: E731
        given = tools(client, recorder, inputs, clock=lambda: self.now, wall_clock=lambda: 1_795_341_601.0)
        self.reporter = UncheckedPodReporter(given)

    async def after(self, seconds: float) -> dict[BoundResult, int]:
        self.now += seconds
        await self.reporter.turn()
        return dict(self.reporter.results)

    def events(self) -> list[dict[str, Any]]:
        return list(self.api.objects.all(parse_path(EVENTS)))


@pytest.fixture
async def sweeping(api: FakeApiServer, client: ApiClient, recorder: EventWriter) -> AsyncIterator[Sweeping]:
    api.put("/api/v1/namespaces/shop/pods/wrong", pod("far", {"delay_edge-1": "25"}))
    api.put("/api/v1/namespaces/shop/pods/right", pod("near", {"delay_edge-1": "25"}))
    api.put("/api/v1/namespaces/shop/pods/free", pod("far", {"app": "x"}))
    one = Sweeping(api, client, recorder)
    async with running(one.reporter.reflector.run()):
        await until(one.reporter.reflector.loaded.is_set)
        yield one


async def test_a_pod_that_was_bound_against_its_bound_gets_an_event_that_says_so(sweeping: Sweeping) -> None:
    assert await sweeping.after(0.0) == {BoundResult.KEPT: 1}
    assert await sweeping.after(HOLD_SECONDS) == {BoundResult.KEPT: 1, BoundResult.UNCHECKED: 1}
    await until(lambda: len(sweeping.events()) == 1)
    (event,) = sweeping.events()
    assert (event["reason"], event["type"], event["regarding"]["name"]) == ("BoundUnchecked", "Warning", "wrong")
    assert event["note"].startswith("bound to node far against its delay bound: 80 ms from edge-1")


async def test_a_pod_that_was_bound_well_gets_an_event_with_its_delay_where_that_is_switched_on(
    sweeping: Sweeping,
) -> None:
    sweeping.reporter._tells_placements = True
    await sweeping.after(0.0)
    await until(lambda: len(sweeping.events()) == 1)
    (event,) = sweeping.events()
    assert (event["reason"], event["type"], event["regarding"]["name"]) == ("BoundKept", "Normal", "right")
    assert event["note"].startswith("bound to node near: 5 ms from edge-1")
