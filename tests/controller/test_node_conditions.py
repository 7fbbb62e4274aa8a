"""Verdicts become conditions and Events, once for each change, whichever replica leads."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from controller.node_health import NodeConditions
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.planning.failover import verdicts
from leadsman.planning.failover.node_verdict import NodeVerdict, Signal, Signals, Timeline, Truth
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.testbed.api_objects import ObjectPath, parse_path
from tests.conftest import Until
from tests.controller.followed import tools
from tests.testbed.scripted_api_server import FakeApiServer

NODE = "/api/v1/nodes/n1"
SIGN = {"T": Truth.TRUE, "F": Truth.FALSE, "?": Truth.UNKNOWN}
DEAD, SUSPECT, REACHABLE, NO_EVIDENCE = "TTT", "TTF", "FFF", "???"


def verdict(signs: str) -> dict[str, NodeVerdict]:
    """Of node n1, by its three signals."""
    peers, heartbeat, lease = (Signal(SIGN[sign], f"says {sign}") for sign in signs)
    state, reason = verdicts.of_signals((peers.truth, heartbeat.truth, lease.truth))
    said = NodeVerdict("n1", state, 1.0, reason, "who says what", Signals(peers, heartbeat, lease), Timeline())
    return {"n1": said}


class Publisher:
    """A leader that publishes."""

    def __init__(self, api: FakeApiServer) -> None:
        self.leads, self._api = True, api
        self.client = client = ApiClient(ApiAccess(api.url), deadline_seconds=5.0, may_write=lambda: self.leads)
        self.recorder = EventWriter(client, TokenBucket(1e6, 1000), "controller-1")
        self.verdicts: dict[str, NodeVerdict] = {}
        given, rate = tools(client, self.recorder), TokenBucket(1e6, 1000)
        self.conditions = NodeConditions(given, lambda: self.verdicts, lambda node: f"uid-of-{node}", rate)

    async def publish(self, signs: str) -> None:
        self.verdicts = verdict(signs)
        await self.conditions.turn()

    @property
    def condition(self) -> dict[str, Any]:
        """The condition on n1; {} when it has none."""
        status = self._api.objects.get(parse_path(NODE)).get("status") or {}
        return next((each for each in status.get("conditions", []) if each["type"] == "LeadsmanUnreachable"), {})

    @property
    def patches(self) -> int:
        return self._api.verbs().count("patch")

    def events(self) -> list[tuple[str, str]]:
        """Reason and type, of the oldest first."""
        found = self._api.objects.all(ObjectPath("/apis/events.k8s.io/v1/events"))
        return [(each["reason"], each["type"]) for each in found]


@pytest.fixture
async def publisher(api: FakeApiServer) -> AsyncIterator[Publisher]:
    api.put(NODE, {"status": {"conditions": []}})
    one = Publisher(api)
    async with one.client:
        task = asyncio.create_task(one.recorder.run())
        yield one
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_each_change_is_one_patch_and_one_event(publisher: Publisher, until: Until) -> None:
    for signs in (SUSPECT, SUSPECT, DEAD, DEAD, REACHABLE, REACHABLE):
        await publisher.publish(signs)
    assert publisher.patches == 3
    await until(lambda: len(publisher.events()) == 3)
    assert publisher.events() == [("NodeSuspect", "Warning"), ("NodeDead", "Warning"), ("NodeReachable", "Normal")]
    assert publisher.condition["status"] == "False"


async def test_the_next_leader_goes_on_from_the_condition(publisher: Publisher, api: FakeApiServer) -> None:
    await publisher.publish(DEAD)
    successor = Publisher(api)
    async with successor.client:
        await successor.publish(DEAD)
        assert successor.patches == 1, "of the first leader"
        await successor.publish(REACHABLE)
    assert successor.condition["status"] == "False"
