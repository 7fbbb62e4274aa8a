"""Re-placement on a fake API server: what is written, in which order, and what is not. Tests bind pods themselves."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from controller.backup_keeper import _with_holds
from controller.moves import Replacement
from controller.settings import SelfHealingSettings
from leadsman.cluster.model import ClusterNode, ClusterPod, cluster_of
from leadsman.cluster.resources import Resources
from leadsman.kube.client import ApiClient
from leadsman.kube.names import HELD_FOR_LABEL, PLACEHOLDER_NAMESPACE
from leadsman.planning.moves.mover import MoveResult
from leadsman.planning.replacement_plan import ReplacementMemory, ReplacementSettings
from leadsman.planning.situation import Situation
from leadsman.published.moves import Move, MoverState, MoveStep
from leadsman.testbed.api_objects import ObjectPath
from tests.controller.followed import (
    KnownHolds,
    bind_placeholders,
    delays,
    event_writer,
    followed,
    inputs_of,
    owned_pod,
    put_nodes,
    tools,
)
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until


class Cluster:
    """Three nodes, a pod on edge-2 bound to edge-1 within 5 ms, and re-placement that follows it."""

    def __init__(self, api: FakeApiServer, client: ApiClient) -> None:
        self.api, self.now, self.to_edge_3 = api, 1000.0, 3.0
        self.recorder = event_writer(client)
        now, moving = lambda: self.now, ReplacementSettings(hold_seconds=0.0, look_again_seconds=0.0)
        rtts = lambda: delays((0, 9, self.to_edge_3), (9, 0, 50), (self.to_edge_3, 50, 0))  # noqa: E731
        given = tools(client, self.recorder, lambda: inputs_of(rtts()), clock=now, wall_clock=now)
        self.healed = KnownHolds(given, SelfHealingSettings(replacement=moving), dict)
        self.replacement = Replacement(given, self.healed, moving)

    async def step(self, seconds: float = 3.0) -> None:
        self.now += seconds
        await self.replacement.turn()

    def holds(self) -> list[dict[str, Any]]:
        return self.api.objects.all(ObjectPath("/api/v1/pods", namespace="leadsman-placeholders"))

    async def held(self) -> None:
        """As far as the eviction."""
        await self.step()
        bind_placeholders(self.api)
        await until(lambda: self.nodes_of_holds() and all(self.nodes_of_holds()))

    def nodes_of_holds(self) -> list[str]:
        """As the follower has them; "" for one that is not bound."""
        assert self.healed.current is not None
        return [pod.node for pod in self.healed.current.pods.values() if pod.namespace == "leadsman-placeholders"]

    def evictions(self) -> int:
        """That were asked for."""
        return sum(each.path.endswith("/eviction") for each in self.api.requests)

    def events(self, reason: str) -> list[str]:
        """Their notes."""
        return [event["note"] for event in self.recorder._pending if event["reason"] == reason]


@pytest.fixture
async def one(api: FakeApiServer, client: ApiClient) -> AsyncIterator[Cluster]:
    put_nodes(api, edge_1="512Mi", edge_2="8Gi", edge_3="8Gi")
    api.put("/api/v1/namespaces/shop/pods/web-1", owned_pod("edge-2", labels={"delay_edge-1": "5"}, uid="web-uid"))
    cluster = Cluster(api, client)
    async with followed(cluster.healed.follower):
        yield cluster


async def test_an_eviction_waits_until_extenders_can_know_that_the_room_is_held(one: Cluster) -> None:
    await one.held()
    one.healed.known = False
    await one.step()
    assert one.replacement.actions.results["EvictPod", "waits"] == 1
    assert [(hold.node, hold.owner_uid) for hold in one.replacement.holds] == [("edge-3", "rs-web")]
    one.healed.known = True
    await one.step()
    assert one.replacement.actions.results["EvictPod", "done"] == 1


async def test_an_eviction_that_a_budget_refuses_is_tried_again_only_when_the_server_says(one: Cluster) -> None:
    await one.held()
    one.api.fail("create", 429, retry_after_seconds=20)
    await one.step()
    await one.step()
    assert one.evictions() == 1
    assert one.replacement.actions.results["EvictPod", "refused"] == 1
    await one.step(21.0)
    assert one.evictions() == 2


async def test_a_move_that_stays_refused_is_rolled_back(one: Cluster) -> None:
    await one.held()
    one.api.fail("create", 429, retry_after_seconds=60)
    await one.step()
    await one.step(31.0)
    assert one.replacement.ended == {MoveResult.ROLLED_BACK: 1}
    assert not one.holds()
    assert "within 30 s" in one.events("ReplacementRolledBack")[0]


@pytest.mark.parametrize("on_a", [("web", "room"), ("web",), ("room",), ()])
def test_room_that_a_move_holds_counts_once(on_a: tuple[str, ...], client: ApiClient) -> None:
    """On both nodes of web, which makes room for db on a: not beside the pods that hold it there already."""
    nodes, labels = {**dict.fromkeys(on_a, "a"), "to": "b", "db": ""}, {"room": "db", "to": "web"}
    size = {each: Resources(100, gib, 1) for each, gib in (("web", 5), ("to", 5), ("room", 3), ("db", 8))}
    held_for = {each: {HELD_FOR_LABEL: labels[each]} if each in labels else {} for each in nodes}
    there = cluster_of(
        [ClusterNode("a"), ClusterNode("b")],
        [
            ClusterPod(each, PLACEHOLDER_NAMESPACE, "", nodes[each], requests=size[each], labels=held_for[each])
            for each in nodes
        ],
    )
    one = Cluster(FakeApiServer(), client)
    one.healed.follower = SimpleNamespace(current=there)  # type: ignore[assignment]
    fields: dict[str, Any] = dict.fromkeys(("namespace", "name", "workload", "owner_uid", "reason"), "")
    fields |= {"pod_uid": "web", "from_node": "a", "to_node": "b", "for_uid": "db", "step": MoveStep.LANDING}
    move = Move(**fields, requests=size["web"], since=one.now)
    one.replacement._memory = ReplacementMemory(MoverState((move,)))
    held = _with_holds(Situation(there, inputs_of()), one.replacement.holds or ()).cluster
    assert [held.requested(node).memory_bytes for node in "ab"] == [8, 5]


async def test_a_holding_pod_that_its_kubelet_refused_makes_way_for_the_next(one: Cluster) -> None:
    await one.step()
    [hold] = one.holds()
    refused = {**hold, "status": {"phase": "Failed"}}
    one.api.put(f"/api/v1/namespaces/leadsman-placeholders/pods/{hold['metadata']['name']}", refused)
    await until(lambda: not one.nodes_of_holds())
    for _ in range(3):
        await one.step(31.0)
        await one.step(601.0)
    assert not any(each["status"].get("phase") == "Failed" for each in one.holds())


async def test_a_pod_of_another_namespace_with_the_label_of_holds_is_left_alone(one: Cluster) -> None:
    theirs = owned_pod("edge-3", "theirs", uid="theirs", labels={HELD_FOR_LABEL: "me"})
    one.api.put("/api/v1/namespaces/shop/pods/theirs", theirs)
    await until(lambda: one.healed.current and "theirs" in one.healed.current.pods)
    await one.step()
    assert not [each.path for each in one.api.requests if each.verb == "delete"]


async def test_nothing_is_done_before_the_state_is_written(one: Cluster) -> None:
    one.api.fail("create", 503)
    await one.step()
    writes = [f"{each.verb} {each.path}" for each in one.api.requests if each.verb not in ("get", "list", "watch")]
    assert writes == ["create /api/v1/namespaces/leadsman/configmaps"]
    await one.step()
    assert len(one.holds()) == 1


async def test_no_fix_is_an_event_once_for_each_reason(one: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    one.to_edge_3 = 7.0
    for _ in range(3):
        await one.step()
    [note] = one.events("NoFix")
    assert "bound edge-1 within 5 ms, delay 9 ms (by static)" in note
    assert f"nothing can be done for pod shop/web-1: {note}" in caplog.messages
    assert one.replacement.page()["no_fix"] == {"shop/web-1": note}
