"""Groups of nodes, their order, and who is slow in them."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.api import view
from extender.dead_links import LEAST_PROBES, DeadLinkFinder
from leadsman.state.records import Heartbeat, Latency, PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot
from tests.extender.api.conftest import NOW, invented_snapshot, started
from tests.page_server import InventedCluster


@pytest.fixture
def cluster() -> InventedCluster:
    return InventedCluster(80, random.Random(3))


@pytest.fixture
def table(cluster: InventedCluster) -> view.DelayTable:
    return view.delay_table(invented_snapshot(cluster), NOW)


def test_groups_by_delay_hold_nodes_that_are_near_each_other() -> None:
    place = np.array([0.0, 1.0, 2.0, 3.0, 100.0, 101.0, 102.0, 103.0, 400.0, 401.0, 402.0, 403.0])
    grouping = view.group_by_delay([f"n{at}" for at in range(12)], ["z"] * 12, lambda at: np.abs(place - place[at]))
    assert [set(each) for each in np.split(grouping.group_of, 3)] == [{0}, {2}, {1}]
    assert all("z near " in label for label in grouping.labels)


@given(nodes=st.integers(0, 400), seed=st.integers(0, 100))
def test_every_node_is_in_one_of_at_most_64_groups_and_none_is_empty(nodes: int, seed: int) -> None:
    place = np.random.default_rng(seed).uniform(0, 100, nodes)
    names = [f"n{at}" for at in range(nodes)]
    grouping = view.group_by_delay(names, [""] * nodes, lambda at: np.abs(place - place[at]))
    assert len(grouping.ids) <= view.MAX_GROUPS
    assert sorted(grouping.order.tolist()) == list(range(nodes))
    assert (grouping.sizes > 0).all()


def test_the_slow_node_stands_out_in_its_group(cluster: InventedCluster, table: view.DelayTable) -> None:
    grouping = view.group_by_zone(cluster.zones)
    assert grouping is not None
    excess = view.node_excess_ms(table, grouping, view.group_matrix(table, grouping))
    (slow,) = view.slow_nodes(excess, table.node_medians)
    assert table.names[slow] == cluster.slow
    assert excess[slow] == pytest.approx(35, abs=3)


def test_the_pairs_of_a_slow_node_hide_no_other_outlier(cluster: InventedCluster, table: view.DelayTable) -> None:
    grouping = view.group_by_zone(cluster.zones)
    assert grouping is not None
    slow = table.names.index(cluster.slow)
    far = int(np.flatnonzero((table.source != slow) & (table.target != slow) & ~table.is_lost)[0])
    table.rtt_ms[far] += 200
    rows = view.outlier_rows(table, grouping, view.group_matrix(table, grouping), np.array([slow]))
    assert rows.tolist() == [far]


# A link without a reply is found: in words, listed, by a failing check, on its nodes and as a metric.

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


async def test_it_is_a_problem_a_failing_check_in_a_list_and_on_both_nodes() -> None:
    async with started(lost=[(A, B)]) as api:
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
