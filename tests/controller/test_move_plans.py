"""A plan that is handed over, on a fake API server: what is written, in which order, and what a restart repeats.

Tests stand in for kube-scheduler, kubelets and owners, and the controller may be killed at each write.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from controller.keeper import DocumentObject
from controller.moves import Replacement
from controller.settings import SelfHealingSettings
from leadsman.cli.plan_status import ask_controller
from leadsman.decision.inputs import DecisionInputs, WorkloadIndex
from leadsman.decision.policy import Policy
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient, ApiRequest
from leadsman.kube.errors import NotLeader
from leadsman.kube.events import EventWriter
from leadsman.planning.moves.plan_run import MovePlanLimits
from leadsman.planning.replacement_plan import ReplacementSettings
from leadsman.published.moves import (
    MOVE_PLAN,
    HandedOverPlan,
    MovePlan,
    Outcome,
    PlannedMove,
    PlanOrigin,
    PlanRequest,
    RunState,
)
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.cluster.cluster_follower import ClusterFollower
from leadsman.state.snapshot import Snapshot
from leadsman.testbed.api_objects import ObjectPath
from tests.conftest import Until
from tests.controller.followed import KnownHolds, followed, owned_pod, put_nodes, tools
from tests.testbed.scripted_api_server import FakeApiServer

HOLDS = "/api/v1/namespaces/leadsman-placeholders/pods"
PODS = "/api/v1/namespaces/shop/pods"
NOW = 1000.0
PLAN = MovePlan(
    origin=PlanOrigin.DRAIN,
    taken_at=NOW,
    moves=tuple(
        PlannedMove(
            pod_uid=f"{name}-uid",
            namespace="shop",
            name=name,
            from_node="edge-1",
            to_node="edge-2",
            to_node_uid="edge-2",
        )
        for name in ("web", "db")
    ),
)


class Dies(BaseException):
    """The process ends here."""


class MortalClient(ApiClient):
    """Asks before each write whether it may, which is where the controller dies."""

    def __init__(self, may_write: Callable[[], bool], url: str) -> None:
        super().__init__(ApiAccess(url), deadline_seconds=5.0)
        self.may_write = may_write

    async def send(self, call: ApiRequest) -> bytes:
        if call.method != "GET" and not self.may_write():
            raise NotLeader("this replica does not lead")
        return await super().send(call)


class Cluster:
    """Two nodes, two pods on edge-1, and a controller that carries out plans.

    die_before: the write of this number is the one before which the controller dies; 0: it does not.
    """

    def __init__(self, api: FakeApiServer, client: ApiClient) -> None:
        self.api, self.leads, self.now = api, True, NOW
        self.client = MortalClient(self.may_write, api.url)
        self.writes, self.die_before = 0, 0
        self.recorder = EventWriter(self.client, TokenBucket(1e6, 1000), "controller-1")
        self.follower = ClusterFollower(client)
        self.object = DocumentObject(client, "leadsman", MOVE_PLAN)
        self.replacement = self.start()

    def may_write(self) -> bool:
        self.writes += 1
        if self.writes == self.die_before:
            raise Dies
        return self.leads

    def start(self) -> Replacement:
        """A process that knows nothing yet."""
        given = tools(
            self.client,
            self.recorder,
            lambda: DecisionInputs(Snapshot(), Policy(), 100.0, workloads=WorkloadIndex({}, 100.0)),
            lambda: self.leads,
            lambda: self.now,
            lambda: self.now,
        )
        replacement = ReplacementSettings(mends=False)
        healed = KnownHolds(given, SelfHealingSettings(replacement=replacement, move_plans=MovePlanLimits()), dict)
        healed.follower = self.follower
        return Replacement(given, healed, replacement)

    async def step(self, until: Until) -> None:
        """The controller plans and acts, and then the rest of the cluster does its part."""
        self.now += 3.0
        try:
            await self.replacement.turn()
        except Dies:
            self.die_before = 0
            self.replacement = self.start()
        await self.catch_up(until)

    async def catch_up(self, until: Until) -> None:
        """Binds holding pods, has owners make new pods where room was held; and sees all of it."""
        for path in sorted({each.path.removesuffix("/eviction") for each in self.evictions()}):
            name = path.rsplit("/", 1)[1]
            if f"{name}-2" not in self.pods("shop"):
                self.api.put(f"{PODS}/{name}-2", owned_pod("edge-2", name, uid=f"{name}-2-uid"))
        for name, hold in self.pods("leadsman-placeholders").items():
            if "nodeName" not in hold["spec"]:
                self.api.put(f"{HOLDS}/{name}", {**hold, "spec": {**hold["spec"], "nodeName": "edge-2"}})
        here = {(each, name) for each in ("shop", "leadsman-placeholders") for name in self.pods(each)}
        await until(lambda: self.seen() == here and self.all_bound())

    def evictions(self) -> list[Any]:
        return [each for each in self.api.requests if each.path.endswith("/eviction")]

    def pods(self, namespace: str) -> dict[str, dict[str, Any]]:
        objects = self.api.objects.all(ObjectPath("/api/v1/pods", namespace=namespace))
        return {each["metadata"]["name"]: each for each in objects}

    def seen(self) -> set[tuple[str, str]]:
        current = self.follower.current
        return {(each.namespace, each.name) for each in current.pods.values()} if current else set()

    def all_bound(self) -> bool:
        current = self.follower.current
        return current is not None and all(each.node for each in current.pods.values())

    def outcomes(self) -> list[Outcome]:
        progress = self.replacement.plan and self.replacement.plan.memory.state.progress
        return [each.outcome for each in progress.moves] if progress else []

    def state(self) -> RunState | None:
        progress = self.replacement.plan and self.replacement.plan.memory.state.progress
        return progress.state if progress else None


Start = Callable[[], AbstractAsyncContextManager[Cluster]]


@pytest.fixture
def started(api: FakeApiServer, client: ApiClient, until: Until) -> Start:
    @asynccontextmanager
    async def start() -> AsyncIterator[Cluster]:
        put_nodes(api, edge_1="8Gi", edge_2="8Gi")
        for name in ("web", "db"):
            api.put(f"{PODS}/{name}", owned_pod("edge-1", name, uid=f"{name}-uid"))
        one = Cluster(api, client)
        async with one.client, followed(one.follower, until):
            yield one

    return start


@pytest.mark.parametrize("number", range(1, 11))
async def test_a_controller_killed_before_any_write_goes_on_and_evicts_each_pod_once(
    number: int, started: Start, until: Until
) -> None:
    async with started() as one:
        await one.object.write(HandedOverPlan(PLAN))
        one.die_before = number
        for _ in range(16):
            await one.step(until)
        assert one.writes >= number, "it was killed"
        assert one.state() is RunState.DONE
        assert Counter(each.path.split("/")[-2] for each in one.evictions()) == {"web": 1, "db": 1}
        assert not one.pods("leadsman-placeholders")


async def test_a_paused_plan_waits_and_a_resumed_one_goes_on(started: Start, until: Until) -> None:
    async with started() as one:
        await one.object.write(HandedOverPlan(PLAN))
        await ask_controller(one.client, "leadsman", PlanRequest.PAUSE)
        for _ in range(4):
            await one.step(until)
        assert one.state() is RunState.PAUSED
        assert not one.evictions()
        await ask_controller(one.client, "leadsman", PlanRequest.RUN)
        for _ in range(10):
            await one.step(until)
        assert one.state() is RunState.DONE


async def test_a_plan_that_cannot_be_read_moves_nothing(started: Start, until: Until) -> None:
    async with started() as one:
        path = "/api/v1/namespaces/leadsman/configmaps/leadsman-move-plan"
        one.api.put(path, {"data": {"plan.json": '{"plan": {"origin": "whim"}}'}})
        for _ in range(3):
            await one.step(until)
        assert one.state() is None
        assert not one.pods("leadsman-placeholders")


async def test_extenders_are_told_where_alone_the_new_pod_may_go(started: Start, until: Until) -> None:
    async with started() as one:
        await one.object.write(HandedOverPlan(PLAN))
        holds = []
        for _ in range(6):
            await one.step(until)
            holds += [(hold.node, hold.owner_uid, hold.only) for hold in one.replacement.holds or ()]
        assert ("edge-2", "rs-web", True) in holds
