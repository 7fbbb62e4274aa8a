"""Backups, placeholders and recovery on a fake API server: what is written, in which order, and what is not."""

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from controller.keeper import DocumentObject, move_hold_uid
from controller.run import SelfHealing
from controller.settings import SelfHealingSettings
from leadsman.cluster.resources import Resources
from leadsman.kube.client import ApiClient
from leadsman.kube.names import PLACEHOLDER_LABEL
from leadsman.planning.backups.placeholders import CoverageState
from leadsman.planning.failover.node_verdict import NodeHealth, NodeVerdict
from leadsman.planning.recovery_plan import UNREACHABLE_TAINT, RecoveryBudget
from leadsman.published import documents
from leadsman.published.self_healing import SELF_HEALING, Hold, RecoveryState, SelfHealingState
from leadsman.rewards.pod_types import pod_type
from leadsman.sources.delay.matrix import DelayMatrix
from leadsman.testbed.api_objects import ObjectPath
from tests.controller.followed import (
    EDGES,
    PLACEHOLDERS,
    bind_placeholders,
    delays,
    event_writer,
    inputs_of,
    owned_pod,
    put_nodes,
    tools,
)
from tests.leadsman.planning.recovery.test_plan import verdict as verdict_of
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

POD, OTHER = "/api/v1/namespaces/shop/pods/web-1", "/api/v1/namespaces/shop/pods/db-1"


def near(*nodes: str) -> DelayMatrix:
    """These are 1 ms apart, and no other is known."""
    return delays(*[[1.0] * len(nodes)] * len(nodes), nodes=nodes)


class Cluster:
    """A fake API server with three nodes and a bounded pod on the first, and self-healing that follows it.

    The test binds placeholders as kube-scheduler would.
    """

    def __init__(self, api: FakeApiServer, client: ApiClient, budget: RecoveryBudget) -> None:
        self.api, self.verdicts, self.view = api, {name: verdict(name) for name in EDGES}, near(*EDGES)
        self.recorder = event_writer(client)
        settings = SelfHealingSettings(enabled=True, budget=budget)
        self.ahead = 0.0
        clock = lambda: time.monotonic() + self.ahead  # noqa: E731
        given = tools(client, self.recorder, lambda: inputs_of(self.view), clock=clock)
        self.healing = SelfHealing(given, settings, lambda: self.verdicts)
        self.published = DocumentObject(client, "leadsman", SELF_HEALING)

    async def step(self) -> None:
        """One turn of each keeper, on what the API server shows now."""
        self.healing.backups.hurry()
        for keeper in self.healing.keepers:
            await keeper.turn()

    async def cover(self) -> str:
        """Steps until the pod is covered; its backup node."""
        await self.step()
        bind_placeholders(self.api)
        pods = len(self.healing.backups.coverage)
        await until(lambda: len([*filter(None, self.nodes_of_placeholders())]) == pods)
        await self.step()
        coverage, *_ = self.healing.backups.coverage.values()
        assert coverage.state is CoverageState.COVERED
        return coverage.node

    def nodes_of_placeholders(self) -> list[str]:
        """As the follower has them; "" for one that is not bound."""
        cluster = self.healing.cluster.current
        return [pod.node for pod in cluster.pods.values() if pod.namespace != "shop"] if cluster else []

    def die(self, *names: str) -> None:
        self.verdicts |= {name: verdict(name, NodeHealth.DEAD) for name in names}
        self.view = near(*(name for name in EDGES if name not in names))

    def taints(self, node: str) -> list[str]:
        spec = self.api.objects.get(ObjectPath("/api/v1/nodes", name=node)).get("spec") or {}
        return [taint["key"] for taint in spec.get("taints") or ()]

    def events(self) -> Mapping[str, str]:
        """Reason → note of the Events that wait to be written."""
        return {event["reason"]: event["note"] for event in self.recorder._pending}


def verdict(node: str, state: NodeHealth = NodeHealth.HEALTHY) -> NodeVerdict:
    is_dead = state is NodeHealth.DEAD
    return replace(verdict_of(state, f"node {node} is {state}", not is_dead, *[1.0, 2.0, 3.0] * is_dead), node=node)


@asynccontextmanager
async def started(
    api: FakeApiServer, client: ApiClient, budget: RecoveryBudget, bound_to: str = "edge-1"
) -> AsyncIterator[Cluster]:
    put_nodes(api, **dict.fromkeys(EDGES, "8Gi"))
    api.put(POD, owned_pod("edge-1", labels={f"delay_{bound_to}": "10"}))
    cluster = Cluster(api, client, budget)
    async with running(cluster.healing.cluster.run()):
        await until(lambda: cluster.healing.cluster.loaded)
        yield cluster


@pytest.fixture
async def cluster(api: FakeApiServer, client: ApiClient) -> AsyncIterator[Cluster]:
    async with started(api, client, RecoveryBudget()) as one:
        yield one


async def test_a_controller_that_has_not_read_the_moves_yet_leaves_their_published_holds(cluster: Cluster) -> None:
    await cluster.cover()
    hold = Hold("edge-2", "rs-web", Resources(pods=1), 2**40, move_hold_uid("web"))
    cluster.healing.recovery._replacement = SimpleNamespace(holds=(hold,))
    await cluster.step()
    cluster.healing.recovery._replacement = SimpleNamespace(holds=None)
    await cluster.step()
    assert (await cluster.published.read()).recovery.holds == (hold,)


async def test_a_new_leader_knows_the_backups_and_the_spent_budget(cluster: Cluster, client: ApiClient) -> None:
    backup = await cluster.cover()
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
    api: FakeApiServer, client: ApiClient
) -> None:
    async with started(api, client, RecoveryBudget(least_nodes=9, fresh_ratio=0.0), bound_to="edge-3") as cluster:
        assert await cluster.cover() == "edge-2"
        cluster.die("edge-1", "edge-2")
        for _ in range(3):
            await cluster.step()
            await until(lambda: cluster.healing.cluster.current.nodes["edge-1"].taints)
        assert [asked.path for asked in cluster.api.requests if asked.verb == "delete" and asked.path == POD] == []
        bind_placeholders(api)
        await until(lambda: "edge-3" in cluster.nodes_of_placeholders())
        await cluster.step()
        assert POD in [asked.path for asked in cluster.api.requests if asked.verb == "delete"]


async def test_a_pod_whose_deletion_fails_keeps_its_room_and_keeps_no_other_pod_from_its_own(cluster: Cluster) -> None:
    api, recovery = cluster.api, cluster.healing.recovery
    api.put(OTHER, owned_pod("edge-1", "db", labels={"delay_edge-1": "10"}))
    await until(lambda: len(cluster.healing.cluster.current.pods) == 2)
    await cluster.cover()
    cluster.die("edge-1")
    await cluster.step()
    await until(lambda: cluster.healing.cluster.current.nodes["edge-1"].taints)
    cluster.healing.healed.follower = SimpleNamespace(current=cluster.healing.cluster.current)  # type: ignore[assignment]
    pod, asked = api.objects.get(ObjectPath("/api/v1/pods", "shop", "web-1")), len(api.requests)
    api.fail("delete", 500)
    await recovery.turn()
    api.put(POD, pod)  # it only ends, and nobody has seen that yet
    await recovery.turn()
    deleted = [each.path for each in api.requests[asked:] if each.verb == "delete"]
    assert [each if each in (POD, OTHER) else "room" for each in deleted] == [OTHER, POD, "room", OTHER, "room"]


@pytest.mark.parametrize(("gone", "released", "covered"), [("node", 0, 0), ("room", 0, 0), ("room", 1, 1)])
async def test_a_pod_on_a_suspect_node_is_covered_by_room_that_is_held_or_released_for_it(
    api: FakeApiServer, client: ApiClient, gone: str, released: int, covered: int
) -> None:
    async with started(api, client, RecoveryBudget(least_nodes=9, fresh_ratio=0.0)) as cluster:
        backup = await cluster.cover()
        cluster.verdicts |= {"edge-1": verdict("edge-1", NodeHealth.SUSPECT)}
        await cluster.step()
        [uid] = cluster.healing.backups.coverage
        holds = (Hold(backup, "rs-web", Resources(pods=1), 2**40, uid),) * released
        cluster.healing.healed.published.value = SelfHealingState(RecoveryState(holds=holds))
        [placeholder] = api.objects.all(ObjectPath("/api/v1/pods", namespace="leadsman-placeholders"))
        api.delete(f"/api/v1/nodes/{backup}" if gone == "node" else f"{PLACEHOLDERS}/{placeholder['metadata']['name']}")
        before = cluster.healing.cluster.current
        await until(lambda: cluster.healing.cluster.current is not before)
        await cluster.step()
        [coverage] = cluster.healing.backups.coverage.values()
        assert ((coverage.node, coverage.state) == (backup, CoverageState.COVERED)) == bool(covered)


async def test_while_a_node_is_suspect_its_last_delays_are_written_once(api: FakeApiServer, client: ApiClient) -> None:
    async with started(api, client, RecoveryBudget(least_nodes=9, fresh_ratio=0.0)) as cluster:
        await cluster.cover()
        cluster.verdicts |= {"edge-1": verdict("edge-1", NodeHealth.SUSPECT)}
        cluster.view = near("edge-2", "edge-3")
        written = []
        for _ in range(6):
            await cluster.step()
            written.append(sum(each.verb == "update" and "leadsman-self-healing" in each.path for each in api.requests))
        assert written[3] == written[-1]


async def test_a_state_without_owners_for_which_it_has_no_room_is_written_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.cover()
    known = await cluster.published.read()
    assert known is not None
    assert known.backup_owners
    to_come = replace(known.recovery, refused={"edge-3": "node edge-3 is suspect"})
    without_owners = replace(known, recovery=to_come, backup_owners={})
    monkeypatch.setattr(documents, "MAX_BYTES", len(SELF_HEALING.encode(without_owners)) + 8)
    cluster.verdicts |= {"edge-3": verdict("edge-3", NodeHealth.SUSPECT)}
    for _ in range(3):
        await cluster.step()
    written = [each for each in cluster.api.requests if each.verb != "get" and SELF_HEALING.config_map in each.path]
    assert len(written) == 1


async def test_a_pod_of_another_namespace_with_the_label_of_placeholders_is_left_alone(cluster: Cluster) -> None:
    await cluster.cover()
    theirs = owned_pod("edge-3", "theirs", uid="theirs", labels={PLACEHOLDER_LABEL: "edge-3"})
    cluster.api.put("/api/v1/namespaces/shop/pods/theirs", theirs)
    await until(lambda: "theirs" in cluster.healing.cluster.current.pods)
    await cluster.step()
    assert not [each.path for each in cluster.api.requests if each.verb == "delete"]


async def test_a_node_that_came_back_under_the_name_of_a_dead_one_gets_no_taint(cluster: Cluster) -> None:
    await cluster.cover()
    as_planned = cluster.healing.cluster.current
    cluster.healing.healed.follower = SimpleNamespace(current=as_planned)  # type: ignore[assignment]
    cluster.api.put("/api/v1/nodes/edge-1", {"metadata": {"uid": "another machine"}})
    cluster.die("edge-1")
    await cluster.healing.recovery.turn()
    assert cluster.taints("edge-1") == []
    assert cluster.healing.recovery.actions.results == {("TaintNode", "gone"): 1}
    counted = {tuple(each.labels.values()) for family in cluster.healing.recovery.families() for each in family.samples}
    assert ("DeletePod", "done") in counted, "from 0 on, or an alert misses the first"


async def test_nothing_is_done_before_the_state_is_written(cluster: Cluster) -> None:
    await cluster.cover()
    cluster.die("edge-1")
    cluster.api.fail("update", 500)
    cluster.api.fail("create", 500)
    await cluster.healing.recovery.turn()
    assert cluster.taints("edge-1") == []
    await cluster.healing.recovery.turn()
    assert cluster.taints("edge-1") == [UNREACHABLE_TAINT]


async def test_placeholders_are_one_type_of_pod_whatever_their_names(cluster: Cluster) -> None:
    """Else each is a type of its own, with a record of failures in etcd."""
    await cluster.cover()
    [placeholder] = cluster.api.objects.all(ObjectPath("/api/v1/pods", namespace="leadsman-placeholders"))
    assert pod_type(placeholder["metadata"]["labels"], placeholder["metadata"]["name"], "") == "leadsman-placeholder"


@pytest.mark.parametrize(("status", "why"), [(403, "exceeded quota: room"), (404, "namespaces not found")])
async def test_a_refused_placeholder_leaves_the_pod_uncovered_with_the_refusal(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, status: int, why: str
) -> None:
    caplog.set_level("INFO")
    cluster.api.fail("create", status, body=json.dumps({"message": why, "code": status}).encode())
    await cluster.step()
    [coverage] = cluster.healing.backups.coverage.values()
    assert coverage.state is CoverageState.UNCOVERED
    assert why in coverage.reason
    assert why in cluster.events()["NoBackup"]
    await cluster.step()
    assert [each.reason for each in cluster.healing.backups.coverage.values()] == [coverage.reason]
    assert [(each.verb, each.path) for each in cluster.api.requests].count(("create", PLACEHOLDERS)) == 1
    assert sum("placeholders" in each for each in caplog.messages) == 1, caplog.messages
    cluster.ahead = 31.0
    await cluster.cover()
