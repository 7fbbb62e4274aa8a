"""Verdicts become conditions and Events, once for each change, whichever replica leads."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from controller.node_health import NodeConditions, NodeLeases
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.planning.failover import verdicts
from leadsman.planning.failover.node_verdict import LeaseView, NodeVerdict, Signal, Signals, Timeline, Truth
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.testbed.api_objects import ObjectPath, parse_path
from tests.controller.followed import tools
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

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

    def __init__(self, api: FakeApiServer, client: ApiClient, recorder: EventWriter) -> None:
        self.api, self.verdicts = api, dict[str, NodeVerdict]()
        given, rate = tools(client, recorder), TokenBucket(1e6, 1000)
        self.conditions = NodeConditions(given, lambda: self.verdicts, lambda node: f"uid-of-{node}", rate)

    async def publish(self, signs: str) -> None:
        self.verdicts = verdict(signs)
        await self.conditions.turn()

    def events(self) -> list[tuple[str, str]]:
        """Reason and type, of the oldest first."""
        found = self.api.objects.all(ObjectPath("/apis/events.k8s.io/v1/events"))
        return [(each["reason"], each["type"]) for each in found]


@pytest.fixture
def publisher(api: FakeApiServer, client: ApiClient, recorder: EventWriter) -> Publisher:
    api.put(NODE, {"status": {"conditions": []}})
    return Publisher(api, client, recorder)


async def test_each_change_is_one_patch_and_one_event_also_where_the_next_leader_goes_on(
    publisher: Publisher, api: FakeApiServer, client: ApiClient, recorder: EventWriter
) -> None:
    for signs in (SUSPECT, SUSPECT, DEAD, DEAD):
        await publisher.publish(signs)
    successor = Publisher(api, client, recorder)
    for signs in (DEAD, REACHABLE, REACHABLE):
        await successor.publish(signs)
    assert api.verbs().count("patch") == 3
    await until(lambda: len(publisher.events()) == 3)
    assert publisher.events() == [("NodeSuspect", "Warning"), ("NodeDead", "Warning"), ("NodeReachable", "Normal")]
    [condition] = api.objects.get(parse_path(NODE))["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("LeadsmanUnreachable", "False")


# Leases are stamped by our own clock, and a direct read confirms only what it saw.

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class Followed:
    """The Leases of a fake API server, with a clock that the test moves."""

    def __init__(self, api: FakeApiServer, client: ApiClient) -> None:
        self.now, self._api = 100.0, api
        self.leases = NodeLeases(client, TokenBucket(0.0, 2, lambda: self.now), lambda: self.now)

    def renew(self, node: str, at: str = "t0") -> dict[str, Any]:
        return self._api.put(f"{PATH}/{node}", {"spec": {"leaseDurationSeconds": 40, "renewTime": at}})

    @property
    def view(self) -> LeaseView | None:
        return self.leases.current.get("n1")


@pytest.fixture
async def followed(api: FakeApiServer, client: ApiClient) -> AsyncIterator[Followed]:
    one = Followed(api, client)
    one.renew("n1")
    async with running(one.leases.reflector.run()):
        await until(one.leases.reflector.loaded.is_set)
        yield one


async def test_a_renewal_is_stamped_by_our_own_clock_and_another_change_is_not(
    followed: Followed, api: FakeApiServer
) -> None:
    followed.now = 110.0
    followed.renew("n1", "t1")
    await until(lambda: followed.view == LeaseView(40.0, 110.0))
    followed.now = 120.0
    api.put(f"{PATH}/n1", {"metadata": {"labels": {"x": "y"}}, "spec": {"leaseDurationSeconds": 40, "renewTime": "t1"}})
    followed.renew("n2")
    await until(lambda: "n2" in followed.leases.current)
    assert followed.view == LeaseView(40.0, 110.0)


async def test_a_direct_read_of_a_newer_version_confirms_nothing(followed: Followed, api: FakeApiServer) -> None:
    await until(lambda: api.watches == 1)
    api.objects.put(parse_path(f"{PATH}/n1"), {"spec": {"renewTime": "t1"}})  # The watch hears of it after the read.
    await followed.leases.confirm(["n1"])
    assert followed.view is not None
    assert followed.view.confirmed_at is None
