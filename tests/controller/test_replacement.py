"""Re-placement on a fake API server: what is written, in which order, and what is not. Tests bind pods themselves."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from controller.moves import Replacement
from controller.settings import SelfHealingSettings
from leadsman.decision.inputs import DecisionInputs, SourceRow, WorkloadIndex
from leadsman.decision.policy import Policy
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.planning.moves.mover import MoveResult
from leadsman.planning.replacement_plan import ReplacementSettings
from leadsman.published.moves import MOVES
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.cluster.cluster_follower import ClusterFollower
from leadsman.state.snapshot import Snapshot
from leadsman.testbed.api_objects import ObjectPath
from tests.conftest import Until
from tests.controller.followed import KnownHolds, followed, owned_pod, put_nodes, tools
from tests.testbed.scripted_api_server import FakeApiServer

HOLDS = "/api/v1/namespaces/leadsman-placeholders/pods"
PODS = "/api/v1/namespaces/shop/pods"
WEB = f"{PODS}/web-1"


class Delays:
    """A DelayView that the test sets: the delays to edge-1."""

    source, read_at, fresh_until = "matrix", None, float("inf")

    def __init__(self, **ms: float) -> None:
        self.ms = {name.replace("_", "-"): value for name, value in ms.items()}

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset({"edge-1", *self.ms})

    def row(self, reference: str) -> SourceRow:
        return SourceRow(forward=self.ms if reference == "edge-1" else {})


class Cluster:
    """Three nodes, a pod on edge-2 bound to edge-1 within 5 ms, and re-placement that follows it."""

    def __init__(self, api: FakeApiServer, client: ApiClient, *, dry_run: bool) -> None:
        self.api, self.client, self.leads, self.now = api, client, True, 1000.0
        self.delays = Delays(edge_2=9.0, edge_3=3.0)
        self.recorder = EventWriter(client, TokenBucket(1e6, 1000), "controller-1")
        self.follower = ClusterFollower(client)
        self.replacement = self.start(dry_run=dry_run)

    def start(self, *, dry_run: bool = False) -> Replacement:
        """A process that knows nothing yet."""
        given = tools(
            self.client,
            None if dry_run else self.recorder,
            lambda: DecisionInputs(
                Snapshot(), Policy(), 100.0, workloads=WorkloadIndex({}, 100.0), delay_views=(self.delays,)
            ),
            lambda: self.leads,
            lambda: self.now,
            lambda: self.now,
        )
        moving = ReplacementSettings(hold_seconds=0.0, look_again_seconds=0.0)
        self.healed = KnownHolds(given, SelfHealingSettings(replacement=moving), dict)
        self.healed.follower = self.follower
        return Replacement(given, self.healed, moving)

    async def step(self, seconds: float = 3.0) -> None:
        self.now += seconds
        await self.replacement.turn()

    def holds(self) -> list[dict[str, Any]]:
        return self.api.objects.all(ObjectPath("/api/v1/pods", namespace="leadsman-placeholders"))

    async def bind_holds(self, until: Until) -> None:
        for pod in self.holds():
            term = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            node = term["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
            path = f"{HOLDS}/{pod['metadata']['name']}"
            self.api.put(path, {**pod, "spec": {**pod["spec"], "nodeName": node}})
        await until(
            lambda: bool(self.model("leadsman-placeholders")) and all(self.model("leadsman-placeholders").values())
        )

    def model(self, namespace: str) -> dict[str, str]:
        """Pod → node, as the follower has it."""
        current = self.follower.current
        assert current is not None
        return {pod.name: pod.node for pod in current.pods.values() if pod.namespace == namespace}

    def writes(self) -> list[str]:
        """What was asked to be written: verb and kind, without the state."""
        asked = [each for each in self.api.requests if each.verb not in ("get", "list", "watch")]
        return [f"{each.verb} {each.path.rsplit('/v1/', 1)[1]}" for each in asked if MOVES.config_map not in each.path]

    def events(self) -> dict[str, str]:
        return {event["reason"]: event["note"] for event in self.recorder._pending}

    async def held(self, until: Until) -> None:
        """As far as the eviction."""
        await self.step()
        await until(lambda: bool(self.model("leadsman-placeholders")))
        await self.bind_holds(until)


def pod(node: str, uid: str) -> dict[str, Any]:
    return owned_pod(node, labels={"delay_edge-1": "5"}, uid=uid)


Start = Callable[..., AbstractAsyncContextManager[Cluster]]


@pytest.fixture
def started(api: FakeApiServer, client: ApiClient, until: Until) -> Start:
    @asynccontextmanager
    async def start(*, dry_run: bool = False) -> AsyncIterator[Cluster]:
        put_nodes(api, edge_1="512Mi", edge_2="8Gi", edge_3="8Gi")
        api.put(WEB, pod("edge-2", "web-uid"))
        one = Cluster(api, client, dry_run=dry_run)
        async with followed(one.follower, until):
            yield one

    return start


async def test_an_eviction_waits_until_extenders_can_know_that_the_room_is_held(started: Start, until: Until) -> None:
    async with started() as one:
        await one.held(until)
        one.healed.known = False
        await one.step()
        assert one.replacement.actions.results["EvictPod", "waits"] == 1
        assert [(hold.node, hold.owner_uid) for hold in one.replacement.holds] == [("edge-3", "rs-web")]
        one.healed.known = True
        await one.step()
        assert one.replacement.actions.results["EvictPod", "done"] == 1


async def test_an_eviction_that_a_budget_refuses_is_tried_again_only_when_the_server_says(
    started: Start, until: Until
) -> None:
    async with started() as one:
        await one.held(until)
        one.api.fail("create", 429, retry_after_seconds=20)
        await one.step()
        await one.step()
        assert sum(each.path.endswith("/eviction") for each in one.api.requests) == 1
        assert one.replacement.actions.results["EvictPod", "refused"] == 1
        await one.step(21.0)
        assert sum(each.path.endswith("/eviction") for each in one.api.requests) == 2


async def test_a_move_that_stays_refused_is_rolled_back(started: Start, until: Until) -> None:
    async with started() as one:
        await one.held(until)
        one.api.fail("create", 429, retry_after_seconds=60)
        await one.step()
        await one.step(31.0)
        assert one.replacement.ended == {MoveResult.ROLLED_BACK: 1}
        assert not one.holds()
        assert "within 30 s" in one.events()["ReplacementRolledBack"]


async def test_nothing_is_done_before_the_state_is_written(started: Start) -> None:
    async with started() as one:
        one.api.fail("create", 503)
        await one.step()
        assert one.writes() == ["create namespaces/leadsman/configmaps"]
        await one.step()
        assert len(one.holds()) == 1


async def test_no_fix_is_an_event_once_for_each_reason(started: Start) -> None:
    async with started() as one:
        one.delays = Delays(edge_2=9.0, edge_3=7.0)
        for _ in range(3):
            await one.step()
        notes = [event["note"] for event in one.recorder._pending if event["reason"] == "NoFix"]
        assert len(notes) == 1
        assert "bound edge-1 within 5 ms, delay 9 ms (by matrix)" in notes[0]
        assert one.replacement.page()["no_fix"] == {"shop/web-1": notes[0]}
