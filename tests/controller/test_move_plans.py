"""A plan that is handed over, on a fake API server: what is written, in which order, and what a restart repeats.

Tests stand in for kube-scheduler, kubelets and owners, and the controller may be killed at each write.
"""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from controller.keeper import DocumentObject
from controller.moves import Replacement
from controller.settings import SelfHealingSettings
from leadsman.cli.plan_status import ask_controller
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient, ApiRequest
from leadsman.planning.moves.plan_run import MovePlanLimits
from leadsman.planning.replacement_plan import ReplacementSettings
from leadsman.published.moves import MOVE_PLAN, HandedOverPlan, MovePlan, PlannedMove, PlanOrigin, PlanRequest, RunState
from leadsman.sources.cluster.cluster_follower import ClusterFollower
from leadsman.testbed.api_objects import ObjectPath
from tests.controller.followed import KnownHolds, bind_placeholders, event_writer, followed, owned_pod, put_nodes, tools
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

PODS = "/api/v1/namespaces/shop/pods"
NOW, TO = 1000.0, "edge-2"
PLAN = MovePlan(
    origin=PlanOrigin.DRAIN,
    taken_at=NOW,
    moves=tuple(
        PlannedMove(pod_uid=f"{name}-uid", namespace="shop", name=name, from_node="edge-1", to_node=TO, to_node_uid=TO)
        for name in ("web", "db")
    ),
)


class Dies(BaseException):
    """The process ends here."""


class MortalClient(ApiClient):
    """The controller dies before the write of the number `die_before`; 0: it does not."""

    writes = die_before = 0

    async def send(self, call: ApiRequest) -> bytes:
        self.writes += call.method != "GET"
        if call.method != "GET" and self.writes == self.die_before:
            raise Dies
        return await super().send(call)


class Cluster:
    """Two nodes, two pods on edge-1, and a controller that carries out plans."""

    def __init__(self, api: FakeApiServer, client: ApiClient) -> None:
        self.api, self.now, self.client = api, NOW, MortalClient(ApiAccess(api.url), deadline_seconds=60.0)
        self.follower = ClusterFollower(client)
        self.object = DocumentObject(client, "leadsman", MOVE_PLAN)
        self.replacement = self.start()

    def start(self) -> Replacement:
        """A process that knows nothing yet."""
        now, replacement = lambda: self.now, ReplacementSettings(mends=False)
        self.recorder = event_writer(self.client)
        given = tools(self.client, self.recorder, clock=now, wall_clock=now)
        healed = KnownHolds(given, SelfHealingSettings(replacement=replacement, move_plans=MovePlanLimits()), dict)
        healed.follower = self.follower
        return Replacement(given, healed, replacement)

    async def step(self) -> None:
        """The controller plans and acts, and then the rest of the cluster does its part."""
        self.now += 3.0
        try:
            await self.replacement.turn()
        except Dies:
            self.client.die_before = 0
            self.replacement = self.start()
        # Holding pods are bound, and owners make new pods where room was held.
        for path in sorted({each.path.removesuffix("/eviction") for each in self.evictions()}):
            name = path.rsplit("/", 1)[1]
            if f"{name}-2" not in self.pods("shop"):
                self.api.put(f"{PODS}/{name}-2", owned_pod("edge-2", name, uid=f"{name}-2-uid"))
        bind_placeholders(self.api)
        here = {(each, name) for each in ("shop", "leadsman-placeholders") for name in self.pods(each)}
        await until(lambda: self.bound() == here)

    def evictions(self) -> list[Any]:
        return [each for each in self.api.requests if each.path.endswith("/eviction")]

    def pods(self, namespace: str) -> dict[str, dict[str, Any]]:
        objects = self.api.objects.all(ObjectPath("/api/v1/pods", namespace=namespace))
        return {each["metadata"]["name"]: each for each in objects}

    def bound(self) -> set[tuple[str, str]]:
        """Namespace and name of each pod, as the follower has them, once all are bound."""
        pods = self.follower.current.pods.values() if self.follower.current else ()
        return {(each.namespace, each.name) for each in pods} if all(each.node for each in pods) else set()

    def state(self) -> RunState | None:
        progress = self.replacement.plan and self.replacement.plan.memory.state.progress
        return progress.state if progress else None


@pytest.fixture
async def one(api: FakeApiServer, client: ApiClient) -> AsyncIterator[Cluster]:
    put_nodes(api, edge_1="8Gi", edge_2="8Gi")
    for name in ("web", "db"):
        api.put(f"{PODS}/{name}", owned_pod("edge-1", name, uid=f"{name}-uid"))
    cluster = Cluster(api, client)
    async with cluster.client, followed(cluster.follower):
        yield cluster


@pytest.mark.parametrize("number", range(1, 11))
async def test_a_controller_killed_before_any_write_goes_on_and_evicts_each_pod_once(number: int, one: Cluster) -> None:
    await one.object.write(HandedOverPlan(PLAN))
    one.client.die_before = number
    for _ in range(16):
        await one.step()
    assert one.client.writes >= number, "it was killed"
    assert one.state() is RunState.DONE
    assert Counter(each.path.split("/")[-2] for each in one.evictions()) == {"web": 1, "db": 1}
    assert not one.pods("leadsman-placeholders")


async def test_a_paused_plan_waits_and_a_resumed_one_goes_on(one: Cluster) -> None:
    await one.object.write(HandedOverPlan(PLAN))
    await ask_controller(one.client, "leadsman", PlanRequest.PAUSE)
    for _ in range(4):
        await one.step()
    assert one.state() is RunState.PAUSED
    assert not one.evictions()
    await ask_controller(one.client, "leadsman", PlanRequest.RUN)
    for _ in range(10):
        await one.step()
    assert one.state() is RunState.DONE
    plan = one.api.objects.get(ObjectPath("/api/v1/configmaps", namespace="leadsman", name="leadsman-move-plan"))
    about = [event["regarding"] for event in one.recorder._pending if event["reason"] == "MovePlanDone"]
    assert [each.get("uid") for each in about] == [plan["metadata"]["uid"]]  # else `kubectl describe` shows no Event


async def test_a_plan_that_cannot_be_read_moves_nothing(one: Cluster) -> None:
    path = "/api/v1/namespaces/leadsman/configmaps/leadsman-move-plan"
    one.api.put(path, {"data": {"plan.json": '{"plan": {"origin": "whim"}}'}})
    for _ in range(3):
        await one.step()
    assert one.state() is None
    assert not one.pods("leadsman-placeholders")


async def test_extenders_are_told_where_alone_the_new_pod_may_go(one: Cluster) -> None:
    await one.object.write(HandedOverPlan(PLAN))
    holds = []
    for _ in range(6):
        await one.step()
        holds += [(hold.node, hold.owner_uid, hold.only) for hold in one.replacement.holds or ()]
    assert ("edge-2", "rs-web", True) in holds
