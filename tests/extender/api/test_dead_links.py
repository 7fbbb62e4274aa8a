"""A link without a reply is found: in words, listed, by a failing check, on its nodes and as a metric."""

from extender.dead_links import LEAST_PROBES, DeadLinkFinder
from leadsman.state.records import Heartbeat, Latency, PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot
from tests.extender.api.conftest import NOW, ApiStarter

ANSWERED, SILENT = PeerLatency(30, 30, 5.0, 6.0, 4.0, 0.1, 1.0), PeerLatency(30, 0)
A, B = "edge-a-0000", "edge-f-0007"


def state(seen_at: float = NOW, **peers: PeerLatency) -> NodeState:
    return NodeState(None, Heartbeat(1, 1, 60.0), Latency(peers), None, seen_at)


def found(**nodes: NodeState) -> list[str]:
    return [link.text for link in DeadLinkFinder().find(Snapshot(nodes), NOW)]


def test_each_direction_is_told() -> None:
    assert found(a=state(b=SILENT), b=state(a=ANSWERED)) == ["a → b: no reply, 0 of 30; the other way 5 ms"]
    assert found(a=state(b=SILENT), b=state(a=SILENT)) == [
        "a → b: no reply, 0 of 30, nor the other way",
        "b → a: no reply, 0 of 30, nor the other way",
    ]
    assert found(a=state(b=SILENT), b=state()) == ["a → b: no reply, 0 of 30"]


def test_a_node_that_is_down_or_unknown_or_hardly_probed_makes_no_dead_link() -> None:
    assert found(a=state(b=SILENT), b=state(NOW - 600)) == []
    assert found(a=state(NOW - 600, b=SILENT), b=state()) == []
    assert found(a=state(b=SILENT)) == []
    assert found(a=state(b=PeerLatency(LEAST_PROBES - 1, 0)), b=state()) == []


def test_new_reports_are_looked_at_and_old_ones_forgotten() -> None:
    finder = DeadLinkFinder()
    assert len(finder.find(Snapshot({"a": state(b=SILENT), "b": state()}), NOW)) == 1
    assert finder.find(Snapshot({"a": state(b=ANSWERED), "b": state()}), NOW) == []


async def test_it_is_a_problem_a_failing_check_in_a_list_and_on_both_nodes(starts_api: ApiStarter) -> None:
    async with starts_api(lost=[(A, B)]) as api:
        text = f"{A} → {B}: no reply, 0 of 30; the other way "
        _, overview = await api.get("/overview")
        (problem,) = [each for each in overview["problems"] if text in each["text"]]
        assert (problem["name"], problem["severity"]) == ("every link answers", "error")
        assert overview["pairs"]["lost"] == 1
        _, health = await api.get("/health")
        assert [each["ok"] for each in health["checks"] if each["name"] == problem["name"]] == [False]
        _, lost = await api.get("/delays/lost")
        assert [(each["source"], each["target"], each["sent"]) for each in lost["items"]] == [(A, B, 30)]
        assert lost["items"][0]["text"].startswith(text)
        assert lost["items"][0]["back_rtt_ms"] > 0
        _, nodes = await api.get("/nodes")
        assert {each["name"] for each in nodes["items"] if "no reply" in str(each["problems"])} == {A, B}
