"""Every captured body is answered as kube-scheduler 1.36.2 needs it, and each trap of the wire is avoided."""

import json
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, structs

from extender import handlers
from extender.decider import DecisionCore
from extender.metrics import MAX_LABELLED_TYPES, reward_metrics
from leadsman.decision.inputs import DecisionInputs, PolledMetrics, TasPolicies, TelemetryInputs
from leadsman.decision.policy import Policy
from leadsman.state.records import Reward
from leadsman.state.snapshot import AgedReward, Snapshot
from tests.extender.conftest import Fixed, args, captured, labelled, starts
from tests.leadsman.decision.telemetry import tas

BOUND = {"delay_node-00000": "25"}


@pytest.mark.parametrize("prefix", ["", "/scheduler"])
@pytest.mark.parametrize("nodes", [3, 100, 1000])
async def test_a_pod_nobody_has_a_say_in_passes_everywhere(nodes: int, prefix: str) -> None:
    body = captured(f"names-{nodes}-filter")
    async with starts() as extender:
        answer = await extender.asked(f"{prefix}/filter", body)
    assert answer == {
        "Nodes": None,
        "NodeNames": json.loads(body)["NodeNames"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


@pytest.mark.parametrize("nodes", [3, 100, 1000])
async def test_full_nodes_come_back_byte_for_byte(nodes: int) -> None:
    """Also those met before, and one of them that has changed since."""
    first = captured(f"nodes-{nodes}-filter")
    changed = first.replace(b'"Ready","status":"True"', b'"Ready","status":"False"', 1)
    assert changed != first
    async with starts() as extender:
        for body in (first, changed, first):
            status, answer = await extender.post("/filter", body)
            items = body[body.index(b'"items":[', body.index(b'"Nodes"')) : body.rindex(b"},")]
            assert status == 200
            assert items in answer
            assert json.loads(answer)["NodeNames"] is None


@pytest.mark.parametrize("form", ["names", "nodes"])
async def test_a_refused_node_has_its_reason_and_is_never_a_candidate_for_preemption(
    measured: Snapshot, form: str
) -> None:
    async with starts(measured) as extender:
        answer = await extender.asked("/filter", labelled(captured(f"{form}-3-filter"), BOUND))
    items = (answer["Nodes"] or {"items": []})["items"]
    kept = answer["NodeNames"] or [node["metadata"]["name"] for node in items]
    assert sorted(kept) == ["node-00000", "node-00001"]
    assert answer["FailedNodes"] == {}
    assert list(answer["FailedAndUnresolvableNodes"]) == ["node-00002"]
    assert "node-00000" in answer["FailedAndUnresolvableNodes"]["node-00002"]


@pytest.mark.parametrize("capture", ["names-3-prioritize", "nodes-3-prioritize", "names-1000-prioritize"])
async def test_scores_are_json_integers_from_0_to_10_one_for_each_node(measured: Snapshot, capture: str) -> None:
    body = labelled(captured(capture), BOUND)
    asked = json.loads(body)
    names = asked["NodeNames"] or [node["metadata"]["name"] for node in asked["Nodes"]["items"]]
    async with starts(measured) as extender:
        scores = await extender.asked("/prioritize", body)
    assert [score["Host"] for score in scores] == names
    assert {type(score["Score"]) for score in scores} == {int}
    assert all(0 <= score["Score"] <= 10 for score in scores)


@pytest.mark.parametrize("form", ["names", "nodes"])
async def test_preempt_keeps_victims_only_where_the_pod_may_run(measured: Snapshot, form: str) -> None:
    body = labelled(captured(f"preempt-{form}"), BOUND)
    given = json.loads(body)
    async with starts(measured) as extender:
        answer = await extender.asked("/preempt", body)
    want = {
        node: {"Pods": [{"UID": pod.get("UID") or pod["metadata"]["uid"]} for pod in victims["Pods"]]}
        for node, victims in (given["NodeNameToMetaVictims"] or given["NodeNameToVictims"]).items()
        if node != "node-00002"
    }
    assert {node: {"Pods": v["Pods"]} for node, v in answer["NodeNameToMetaVictims"].items()} == want
    assert list(answer) == ["NodeNameToMetaVictims"]


async def test_a_bad_body_gets_400_with_the_path() -> None:
    async with starts() as extender:
        body = args(["a"], delay_x="5").replace(b'"5"', b"5")
        assert await extender.post("/filter", body) == (400, b"$.Pod.metadata.labels.delay_x: expected str, got int\n")


async def test_a_compressed_body_is_refused_unread() -> None:
    async with starts() as extender:
        status, answer = await extender.post("/filter", b"x", **{"Content-Encoding": "gzip"})
    assert (status, answer[:22]) == (415, b"Content-Encoding 'gzip")


async def test_the_path_of_kuberl_s_users_is_prioritize() -> None:
    async with starts() as extender:
        body = captured("names-3-prioritize")
        theirs = await extender.asked("/scheduler/priorities/rl-priority", body)
        assert theirs == await extender.asked("/prioritize", body)
        assert extender.count("leadsman_extender_request_duration_seconds_count", verb="prioritize", code="200") == 2
    assert len(theirs) == 3


# The bytes that kube-scheduler reads, whatever stands in them.

REASONS = st.dictionaries(st.text(max_size=9), st.text(max_size=20) | st.just('"here the nodes"'), max_size=5)


@given(REASONS)
def test_no_reason_can_take_the_place_of_the_nodes(reasons) -> None:
    length, chunks = handlers.filtered_nodes([Raw(b"1")], reasons)
    sent = b"".join(chunks)
    assert len(sent) == length
    assert json.loads(sent) == {
        "Nodes": {"metadata": {}, "items": [1]},
        "NodeNames": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": reasons,
        "Error": "",
    }


@pytest.mark.parametrize(("count", "item_bytes"), [(3, 1 << 20), (5_000, 100), (2, 10), (1, 10), (0, 0)])
def test_full_nodes_are_sent_in_chunks_of_bounded_size(count: int, item_bytes: int) -> None:
    """24 nodes of 4 MiB were one chunk."""
    items = [Raw(b'{ "%d" : "%b"}' % (number, b"x" * item_bytes)) for number in range(count)]
    length, made = handlers.filtered_nodes(items, {})
    chunks = list(made)
    assert max(map(len, chunks)) <= 300_000 + item_bytes
    assert len(json.loads(b"".join(chunks))["Nodes"]["items"]) == count
    assert b",".join(bytes(item) for item in items) in b"".join(chunks)
    assert length == sum(map(len, chunks))
    assert len(chunks) <= 3 + count * item_bytes // 100_000


# Telemetry policies through the wire: what kube-scheduler is answered.


def telemetry(values: Mapping[str, str], fail_mode: str = "open") -> Fixed:
    above, least = [tas.rule("m", "GreaterThan", 10)], [tas.rule("m", "LessThan")]
    policy = tas.policy(metrics={"failMode": fail_mode}, dontschedule=above, scheduleonmetric=least)
    table = PolledMetrics({"m": tas.column(values, time.monotonic())}, max_age_seconds=600.0)
    return Fixed(TelemetryInputs(TasPolicies({policy.key: policy}, loaded=True), (table,)))


def body(*nodes: str) -> bytes:
    """Of a pod that names the policy."""
    return args(nodes, **{"telemetry-policy": "p"})


async def test_filter_and_prioritize_follow_the_policy() -> None:
    async with starts(telemetry=telemetry({"a": "10500m", "b": "10", "c": "1"})) as extender:
        answer = await extender.asked("/scheduler/filter", body("a", "b", "c"))
        assert answer["NodeNames"] == ["b", "c"]
        assert answer["FailedNodes"] == {}
        assert answer["FailedAndUnresolvableNodes"] == {"a": "telemetry policy ns/p is violated: m GreaterThan 10"}
        scores = await extender.asked("/scheduler/prioritize", body("b", "c"))
        assert scores == [{"Host": "b", "Score": 1}, {"Host": "c", "Score": 10}]


@pytest.mark.parametrize(("mode", "kept"), [("open", ["a"]), ("closed", [])])
async def test_when_nothing_can_be_decided_only_a_closed_policy_holds_its_pods(mode: str, kept: list[str]) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("ours")

    async with starts(telemetry=telemetry({"a": "1"}, mode), core=DecisionCore(filter_nodes=broken)) as extender:
        assert (await extender.asked("/scheduler/filter", body("a")))["NodeNames"] == kept


# Rewards over HTTP, by type and by node, and their gauges.

GOOD = Reward(at_seconds=0.0, healthy=30.0, recent=5.0)
BAD = Reward(at_seconds=0.0, healthy=1.0, failed=6.0, incidents={"crash": 6}, last_cause="crash")


async def test_every_reward_is_there_by_type_and_by_node_the_worst_first(measured: Snapshot) -> None:
    now = time.monotonic()
    web = {f"node-0000{n}": AgedReward(GOOD, now) for n in range(5)} | {"node-00001": AgedReward(BAD, now)}
    rewards = {"web": web, "db": {"node-00001": AgedReward(GOOD, now)}}
    async with starts(structs.replace(measured, rewards=rewards)) as extender:
        found = await extender.api("/rewards")
    assert (found["rule"], found["pod_types"], found["nodes"]["items"][0]) == ("compared", ["db", "web"], "node-00001")
    worst = found["cells"][1][0]
    assert (worst["incidents"], worst["last_cause"]) == ({"crash": 6}, "crash")
    assert worst["blame_ratio"] > 0.9
    assert all(cell is None for cell in found["cells"][0][1:]), "db ran on one node alone"


def gauges(types: int) -> dict[str, list[float]]:
    now = time.monotonic()
    known = {f"type-{n}": {"a": AgedReward(structs.replace(BAD, failed=float(n)), now)} for n in range(types)}
    found = reward_metrics(DecisionInputs(Snapshot(rewards=known), Policy(), now))
    return {family.name: [sample.value for sample in family.samples] for family in found}


def test_gauges_are_bounded_and_what_is_left_out_is_counted() -> None:
    found = gauges(MAX_LABELLED_TYPES + 7)
    assert (found["leadsman_reward_types"], found["leadsman_reward_types_hidden"]) == ([MAX_LABELLED_TYPES + 7], [7])
    assert found["leadsman_reward_failures"] == [float(n) for n in range(MAX_LABELLED_TYPES + 6, 6, -1)]


# /metrics, /healthz and /readyz.


async def test_while_draining_it_is_not_ready() -> None:
    async with starts(ops=True, draining=lambda: True) as extender:
        assert await extender.get("/readyz") == (503, "draining\n")


async def test_it_is_not_healthy_once_every_worker_is_stuck() -> None:
    stuck = SimpleNamespace(exhausted=True, overdue=16, close=lambda: None)
    async with starts(ops=True, workers=stuck) as extender:
        assert await extender.get("/healthz") == (503, "all worker threads are past their deadline\n")
