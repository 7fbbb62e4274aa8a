"""/explain and /state."""

import json
import threading
from typing import TYPE_CHECKING

import pytest

from extender.body_limits import BodyLimits, BodyReader
from extender.decider import DecisionCore
from leadsman.decision.delay.delay_filter import DelayFilter
from leadsman.sources.input_sources import NoDelayStatus
from leadsman.state.snapshot import Snapshot

if TYPE_CHECKING:
    from tests.extender.conftest import Captured, Labelled, Starter

BOUND = {"delay_node-00000": "25"}


@pytest.fixture
async def decided(starts: "Starter", captured: "Captured", labelled: "Labelled", measured: Snapshot):
    """An extender that filtered and ranked default/cap-00000."""
    async with starts(measured) as extender:
        body = labelled(captured("names-3-filter"), BOUND)
        answer = await extender.asked("/filter", body)
        kept = body.replace(json.dumps(json.loads(body)["NodeNames"], separators=(",", ":")).encode(),
                            json.dumps(answer["NodeNames"]).encode())  # fmt: skip
        await extender.asked("/prioritize", kept)
        yield extender


async def test_an_explanation_names_every_node_with_score_or_reason(decided) -> None:
    status, page = await decided.get("/explain?pod=default/cap-00000")
    assert (status, page.startswith("decided 0.")) == (200, True)
    assert all(node in page for node in ("node-00000", "node-00001", "node-00002"))
    assert "over 25 ms" in page


async def test_a_name_alone_is_a_pod_in_default(decided) -> None:
    assert (await decided.get("/explain?pod=cap-00000"))[0] == 200


@pytest.mark.parametrize(
    ("query", "headers"),
    [("&format=json", {}), ("", {"Accept": "application/json"}), ("&format=json", {"Accept": "*/*"})],
)
async def test_an_explanation_comes_as_json_on_demand(decided, query: str, headers) -> None:
    _, page = await decided.get(f"/explain?pod=default/cap-00000{query}", **headers)
    answer = json.loads(page)
    assert answer["decided_seconds_ago"] >= 0
    assert sorted(node["node"] for node in answer["explanation"]["nodes"]) == ["node-00000", "node-00001", "node-00002"]


async def test_an_unknown_pod_gets_404_that_says_what_is_kept(decided) -> None:
    status, page = await decided.get("/explain?pod=default/other")
    assert status == 404
    assert page.startswith(
        "this replica keeps no decision on pod 'default/other'\nthe newest of the 1 decisions that it keeps"
    )
    assert "  default/cap-00000\n" in page
    assert "the Event BoundUnchecked" in page


async def test_a_replica_that_was_never_asked_says_so(starts: "Starter", measured: Snapshot) -> None:
    async with starts(measured) as extender:
        _, page = await extender.get("/explain?pod=default/other")
        assert "this replica keeps no decision yet: kube-scheduler has not called it" in page


async def test_no_pod_asked_gets_400(decided) -> None:
    status, page = await decided.get("/explain")
    assert (status, page.startswith("name the pod with ?pod=namespace/name\n")) == (400, True)


async def test_a_pod_that_was_never_ranked_is_explained(starts: "Starter", captured: "Captured") -> None:
    async with starts() as extender:
        await extender.asked("/filter", captured("names-3-filter"))
        assert (await extender.get("/explain?pod=default/cap-00000"))[0] == 200


async def test_a_pod_that_was_only_ranked_is_explained(starts: "Starter", captured: "Captured") -> None:
    async with starts() as extender:
        await extender.asked("/prioritize", captured("names-3-prioritize"))
        assert (await extender.get("/explain?pod=default/cap-00000"))[0] == 200


async def test_a_neutral_answer_says_so(starts: "Starter", captured: "Captured", labelled: "Labelled") -> None:
    answered = threading.Event()

    def slow(*_):
        answered.wait()

    body = labelled(captured("names-3-filter"), BOUND)
    async with starts(core=DecisionCore(filter_nodes=slow, score_nodes=slow)) as extender:
        await extender.asked("/filter", body)
        await extender.asked("/prioritize", captured("names-3-filter"))
        answered.set()
        _, page = await extender.get("/explain?pod=default/cap-00000")
    assert "decision exceeded its deadline of 200 ms" in page


async def test_the_state_is_shown_with_freshness_and_delays(starts: "Starter", measured: Snapshot) -> None:
    async with starts(measured) as extender:
        _, text = await extender.get("/state")
        _, data = await extender.get("/state", Accept="application/json")
    assert "node-00000  fresh  0." in text
    assert "node-00001 5 ms, node-00002 80 ms" in text
    state = json.loads(data)
    assert (state["revision"], state["cluster"], state["problems"]) == (7, "c", {})
    assert state["nodes"]["node-00000"]["peers_p50_ms"] == {"node-00001": 5.0, "node-00002": 80.0}


async def test_the_state_names_what_cannot_be_read(starts: "Starter") -> None:
    broken = Snapshot(problems={"/leadsman/v1/nodes/a/latency": "not JSON"}, revision=1)
    async with starts(broken) as extender:
        assert "problem: /leadsman/v1/nodes/a/latency: not JSON" in (await extender.get("/state"))[1]


def broken(*_):
    raise RuntimeError("out of order")


async def test_a_plugin_that_cannot_be_asked_again_is_named(decided, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DelayFilter, "evidence", broken)
    status, page = await decided.get("/explain?pod=default/cap-00000")
    assert (status, "plugin delay raised while explaining: RuntimeError: out of order" in page) == (200, True)


async def test_a_page_that_fails_says_how(decided, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.pages.render_explain", broken)
    status, page = await decided.get("/explain?pod=default/cap-00000")
    assert (status, page) == (503, "/explain failed: RuntimeError: out of order\n")


class Groups:
    """node-00000 and node-00001 are one group; so are hundreds of others."""

    def named(self):
        return {"5 ms": [["node-00000", "node-00001"], *([f"n-{n}", f"m-{n}"] for n in range(300))], "1 ms": []}

    def among(self, kept):
        return {"5 ms": [sorted(kept)]}


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(NoDelayStatus, "groups", Groups())
    monkeypatch.setattr(NoDelayStatus, "problems", {"goldpinger": "status 500, want 200"})
    monkeypatch.setattr(NoDelayStatus, "implausible", {"node-00001": ["node-00000"], "node-00002": ["node-00000"]})
    monkeypatch.setattr(NoDelayStatus, "contradicted", {"node-00001": "other nodes contradict what it reports"})


async def test_node_groups_are_shown_in_the_state_a_line_a_layer(starts: "Starter", measured: Snapshot, beside) -> None:
    async with starts(measured) as extender:
        _, text = await extender.get("/state")
        _, data = await extender.get("/state?format=json")
    assert "\nnodes within 5 ms: node-00000, node-00001 | n-0, m-0 | " in text
    assert " | 281 more\n" in text
    assert "\nnodes within 1 ms: no two\n" in text
    assert len(json.loads(data)["node_groups"]["5 ms"]) == 301


async def test_why_a_source_of_delays_is_not_current_is_shown_in_the_state(
    starts: "Starter", measured: Snapshot, beside
) -> None:
    async with starts(measured) as extender:
        assert "problem: goldpinger: status 500, want 200\n" in (await extender.get("/state"))[1]


async def test_who_reports_what_others_contradict_is_named_in_the_state(
    starts: "Starter", measured: Snapshot, beside
) -> None:
    async with starts(measured) as extender:
        _, text = await extender.get("/state")
        _, data = await extender.get("/state?format=json")
    assert "problem: node-00001: other nodes contradict what it reports\n" in text
    assert "problem: node-00002" not in text, "one implausible report says nothing of its reporter"
    state = json.loads(data)
    assert state["contradicted_nodes"] == {"node-00001": "other nodes contradict what it reports"}
    assert state["implausible_reports"] == {"node-00001": ["node-00000"], "node-00002": ["node-00000"]}


async def test_an_explanation_says_which_groups_the_kept_nodes_are_in(beside, decided) -> None:
    _, page = await decided.get("/explain?pod=default/cap-00000")
    assert page.endswith("nodes that passed within 5 ms: node-00000, node-00001\n")


async def test_a_what_if_is_read_within_the_limits_of_all_requests(starts: "Starter") -> None:
    async with starts(bodies=BodyReader(BodyLimits(max_body_bytes=100))) as extender:
        status, _ = await extender.post("/explain", b"#" * 101)
        assert status == 413
