"""Every captured body is answered as kube-scheduler 1.36.2 needs it, and each trap of the wire is avoided."""

import json

import pytest

from leadsman.state.snapshot import Snapshot
from tests.extender.conftest import Args, Captured, Labelled, Starter

BOUND = {"delay_node-00000": "25"}


@pytest.mark.parametrize("prefix", ["", "/scheduler"])
@pytest.mark.parametrize("nodes", [3, 100, 1000])
async def test_a_pod_nobody_has_a_say_in_passes_everywhere(
    starts: Starter, captured: Captured, nodes: int, prefix: str
) -> None:
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
async def test_full_nodes_come_back_byte_for_byte(starts: Starter, captured: Captured, nodes: int) -> None:
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
    starts: Starter, captured: Captured, labelled: Labelled, measured: Snapshot, form: str
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
async def test_scores_are_json_integers_from_0_to_10_one_for_each_node(
    starts: Starter, captured: Captured, labelled: Labelled, measured: Snapshot, capture: str
) -> None:
    body = labelled(captured(capture), BOUND)
    asked = json.loads(body)
    names = asked["NodeNames"] or [node["metadata"]["name"] for node in asked["Nodes"]["items"]]
    async with starts(measured) as extender:
        scores = await extender.asked("/prioritize", body)
    assert [score["Host"] for score in scores] == names
    assert {type(score["Score"]) for score in scores} == {int}
    assert all(0 <= score["Score"] <= 10 for score in scores)


@pytest.mark.parametrize("form", ["names", "nodes"])
async def test_preempt_keeps_victims_only_where_the_pod_may_run(
    starts: Starter, captured: Captured, labelled: Labelled, measured: Snapshot, form: str
) -> None:
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


async def test_a_bad_body_gets_400_with_the_path(starts: Starter, args: Args) -> None:
    async with starts() as extender:
        body = args(["a"], delay_x="5").replace(b'"5"', b"5")
        assert await extender.post("/filter", body) == (400, b"$.Pod.metadata.labels.delay_x: expected str, got int\n")


async def test_a_compressed_body_is_refused_unread(starts: Starter) -> None:
    async with starts() as extender:
        status, answer = await extender.post("/filter", b"x", **{"Content-Encoding": "gzip"})
    assert (status, answer[:22]) == (415, b"Content-Encoding 'gzip")


async def test_the_path_of_kuberl_s_users_is_prioritize(starts: Starter, captured: Captured) -> None:
    async with starts() as extender:
        body = captured("names-3-prioritize")
        theirs, ours = (
            await extender.asked("/scheduler/priorities/rl-priority", body),
            await extender.asked("/prioritize", body),
        )
        assert extender.count("leadsman_extender_request_duration_seconds_count", verb="prioritize", code="200") == 2
    assert theirs == ours
    assert len(theirs) == 3
