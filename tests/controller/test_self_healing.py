"""Backups, placeholders and recovery on a fake API server: what is written, in which order, and what is not."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Struct

from controller.keeper import DocumentObject, move_hold_uid
from controller.run import SelfHealing
from controller.settings import SelfHealingSettings
from leadsman.cluster.resources import Resources
from leadsman.decision.inputs import DecisionInputs, SourceRow
from leadsman.decision.policy import Policy
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.planning.backups.placeholders import CoverageState
from leadsman.planning.failover.node_verdict import (
    NodeHealth,
    NodeVerdict,
    Signal,
    Signals,
    Timeline,
    Truth,
    VerdictReason,
)
from leadsman.planning.recovery_plan import UNREACHABLE_TAINT, RecoveryBudget
from leadsman.published.self_healing import SELF_HEALING, Hold
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.state.snapshot import Snapshot
from leadsman.testbed.api_objects import ObjectPath
from tests.conftest import Until
from tests.controller.followed import owned_pod, put_nodes, tools
from tests.testbed.scripted_api_server import FakeApiServer

NODES = ("edge-1", "edge-2", "edge-3")
PLACEHOLDERS = "/api/v1/namespaces/leadsman-placeholders/pods"
POD = "/api/v1/namespaces/shop/pods/web-1"


class AllNear:
    """A DelayView in which all nodes are 1 ms apart, as long as they live."""

    source, read_at, fresh_until = "matrix", None, float("inf")

    def __init__(self) -> None:
        self.nodes = frozenset(NODES)

    def row(self, reference: str) -> SourceRow:
        return SourceRow(forward=dict.fromkeys(self.nodes, 1.0)) if reference in self.nodes else SourceRow()


class Cluster:
    """A fake API server with three nodes and a bounded pod on the first, and self-healing that follows it.

    The test binds placeholders as kube-scheduler would.
    """

    def __init__(self, api: FakeApiServer, client: ApiClient, budget: RecoveryBudget) -> None:
        self.api, self.leads, self.verdicts = api, True, {name: verdict(name) for name in NODES}
        self.view = AllNear()
        self.recorder = EventWriter(client, TokenBucket(1e6, 1000), "controller-1")
        settings = SelfHealingSettings(enabled=True, budget=budget)
        given = tools(client, self.recorder, lambda: inputs_from(self.view), lambda: self.leads)
        self.healing = SelfHealing(given, settings, lambda: self.verdicts)
        self.published = DocumentObject(client, "leadsman", SELF_HEALING)

    async def step(self) -> None:
        """One turn of each keeper, on what the API server shows now."""
        self.healing.backups.hurry()
        for keeper in self.healing.keepers:
            await keeper.turn()

    def placeholders(self) -> list[dict[str, Any]]:
        return self.api.objects.all(ObjectPath("/api/v1/pods", namespace="leadsman-placeholders"))

    def bind_placeholders(self) -> None:
        for pod in self.placeholders():
            if not pod["spec"].get("nodeName"):
                term = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
                node = term["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
                bound = {**pod, "spec": {**pod["spec"], "nodeName": node}}
                self.api.put(f"{PLACEHOLDERS}/{pod['metadata']['name']}", bound)

    async def cover(self, until: Until) -> str:
        """Steps until the pod is covered; its backup node."""
        await self.step()
        self.bind_placeholders()
        await until(lambda: any(pod.node for pod in self._model_placeholders()))
        await self.step()
        [coverage] = self.healing.backups.coverage.values()
        assert coverage.state is CoverageState.COVERED
        return coverage.node

    def _model_placeholders(self) -> list[Any]:
        cluster = self.healing.cluster.current
        return [] if cluster is None else [pod for pod in cluster.pods.values() if pod.namespace != "shop"]

    def die(self, *names: str) -> None:
        self.verdicts |= {name: verdict(name, NodeHealth.DEAD) for name in names}
        self.view.nodes = frozenset(NODES) - set(names)

    def taints(self, node: str) -> list[str]:
        spec = self.api.objects.get(ObjectPath("/api/v1/nodes", name=node)).get("spec") or {}
        return [taint["key"] for taint in spec.get("taints") or ()]

    def events(self) -> Mapping[str, str]:
        """Reason → note of the Events that wait to be written."""
        return {event["reason"]: event["note"] for event in self.recorder._pending}


def inputs_from(view: AllNear) -> DecisionInputs:
    return DecisionInputs(Snapshot(), Policy(), now=100.0, delay_views=(view,))


def verdict(node: str, state: NodeHealth = NodeHealth.HEALTHY) -> NodeVerdict:
    truth = Truth.TRUE if state is NodeHealth.DEAD else Truth.FALSE
    signal = Signal(truth, "as the test says")
    reason = VerdictReason.DEAD if state is NodeHealth.DEAD else VerdictReason.REACHABLE
    timeline = Timeline(1.0, 2.0, 3.0) if state is NodeHealth.DEAD else Timeline()
    return NodeVerdict(node, state, 3.0, reason, f"node {node} is {state}", Signals(signal, signal, signal), timeline)


class Moving(Struct):
    """Re-placement, of which recovery asks what room moves of pods keep."""

    known: Callable[[], tuple[Hold, ...] | None]

    @property
    def holds(self) -> tuple[Hold, ...] | None:
        return self.known()


Start = Callable[..., Any]


@pytest.fixture
def started(api: FakeApiServer, client: ApiClient, until: Until) -> Start:
    @asynccontextmanager
    async def start(budget: RecoveryBudget | None = None, bound_to: str = "edge-1") -> AsyncIterator[Cluster]:
        put_nodes(api, **dict.fromkeys(NODES, "8Gi"))
        api.put(POD, owned_pod("edge-1", labels={f"delay_{bound_to}": "10"}))
        cluster = Cluster(api, client, budget or RecoveryBudget())
        task = asyncio.create_task(cluster.healing.cluster.run())
        try:
            await until(lambda: cluster.healing.cluster.loaded)
            yield cluster
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return start


async def test_a_controller_that_has_not_read_the_moves_yet_leaves_their_published_holds(
    started: Start, until: Until
) -> None:
    async with started() as cluster:
        await cluster.cover(until)
        hold = Hold("edge-2", "rs-web", Resources(pods=1), 2**40, move_hold_uid("web"))
        cluster.healing.recovery._replacement = Moving(lambda: (hold,))
        await cluster.step()
        cluster.healing.recovery._replacement = Moving(lambda: None)
        await cluster.step()
        assert (await cluster.published.read()).recovery.holds == (hold,)


async def test_a_new_leader_knows_the_backups_and_the_spent_budget(
    started: Start, client: ApiClient, until: Until
) -> None:
    async with started() as cluster:
        backup = await cluster.cover(until)
        cluster.die("edge-1")
        await cluster.step()
        next_leader = Cluster(cluster.api, client, RecoveryBudget())
        next_leader.healing.healed.follower = cluster.healing.cluster
        next_leader.die("edge-1")
        await next_leader.healing.backups.turn()
        assert [each.node for each in next_leader.healing.backups.memory.pods.values()] == [backup]
        await next_leader.healing.recovery.turn()
        assert len(next_leader.healing.recovery.state.spent) == 1


async def test_a_pod_whose_backup_died_with_its_node_is_deleted_only_once_another_node_holds_its_room(
    started: Start, until: Until
) -> None:
    async with started(RecoveryBudget(least_nodes=9, fresh_ratio=0.0), bound_to="edge-3") as cluster:
        assert await cluster.cover(until) == "edge-2"
        cluster.die("edge-1", "edge-2")
        for _ in range(3):
            await cluster.step()
            await until(lambda: cluster.healing.cluster.current.nodes["edge-1"].taints)
        assert [asked.path for asked in cluster.api.requests if asked.verb == "delete" and asked.path == POD] == []
        cluster.bind_placeholders()
        await until(lambda: any(pod.node == "edge-3" for pod in cluster._model_placeholders()))
        await cluster.step()
        assert cluster.api.requests[-1].path == POD


async def test_a_node_that_came_back_under_the_name_of_a_dead_one_gets_no_taint(started: Start, until: Until) -> None:
    async with started() as cluster:
        await cluster.cover(until)
        as_planned = cluster.healing.cluster.current
        cluster.healing.healed.follower = SimpleNamespace(current=as_planned)
        cluster.api.put("/api/v1/nodes/edge-1", {"metadata": {"uid": "another machine"}})
        cluster.die("edge-1")
        await cluster.healing.recovery.turn()
        assert cluster.taints("edge-1") == []
        assert cluster.healing.recovery.actions.results == {("TaintNode", "gone"): 1}


async def test_nothing_is_done_before_the_state_is_written(started: Start, until: Until) -> None:
    async with started() as cluster:
        await cluster.cover(until)
        cluster.die("edge-1")
        cluster.api.fail("update", 500)
        cluster.api.fail("create", 500)
        await cluster.healing.recovery.turn()
        assert cluster.taints("edge-1") == []
        await cluster.healing.recovery.turn()
        assert cluster.taints("edge-1") == [UNREACHABLE_TAINT]


async def test_a_refused_placeholder_leaves_the_pod_uncovered_with_the_refusal(started: Start) -> None:
    async with started() as cluster:
        cluster.api.fail("create", 403, body=b'{"message": "exceeded quota: room", "code": 403}')
        await cluster.step()
        [coverage] = cluster.healing.backups.coverage.values()
        assert coverage.state is CoverageState.UNCOVERED
        assert "exceeded quota: room" in coverage.reason
        assert "exceeded quota: room" in cluster.events()["NoBackup"]
