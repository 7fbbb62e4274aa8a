"""Groups of nodes, their order, and who is slow in them."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.api.delay_table import (
    MAX_GROUPS,
    DelayTable,
    delay_table,
    group_by_delay,
    group_by_zone,
    group_matrix,
    node_excess_ms,
    outlier_rows,
    slow_nodes,
)
from tests.extender.api.conftest import NOW, invented_snapshot
from tests.page_server import InventedCluster


@pytest.fixture
def cluster() -> InventedCluster:
    return InventedCluster(80, random.Random(3))


@pytest.fixture
def table(cluster: InventedCluster) -> DelayTable:
    return delay_table(invented_snapshot(cluster), NOW)


def test_groups_by_delay_hold_nodes_that_are_near_each_other() -> None:
    place = np.array([0.0, 1.0, 2.0, 3.0, 100.0, 101.0, 102.0, 103.0, 400.0, 401.0, 402.0, 403.0])
    grouping = group_by_delay([f"n{at}" for at in range(12)], ["z"] * 12, lambda at: np.abs(place - place[at]))
    assert [set(each) for each in np.split(grouping.group_of, 3)] == [{0}, {2}, {1}]
    assert all("z near " in label for label in grouping.labels)


@given(nodes=st.integers(0, 400), seed=st.integers(0, 100))
def test_every_node_is_in_one_of_at_most_64_groups_and_none_is_empty(nodes: int, seed: int) -> None:
    place = np.random.default_rng(seed).uniform(0, 100, nodes)
    names = [f"n{at}" for at in range(nodes)]
    grouping = group_by_delay(names, [""] * nodes, lambda at: np.abs(place - place[at]))
    assert len(grouping.ids) <= MAX_GROUPS
    assert sorted(grouping.order.tolist()) == list(range(nodes))
    assert (grouping.sizes > 0).all()


def test_the_slow_node_stands_out_in_its_group(cluster: InventedCluster, table: DelayTable) -> None:
    grouping = group_by_zone(cluster.zones)
    assert grouping is not None
    excess = node_excess_ms(table, grouping, group_matrix(table, grouping))
    (slow,) = slow_nodes(excess, table.node_medians)
    assert table.names[slow] == cluster.slow
    assert excess[slow] == pytest.approx(35, abs=3)


def test_the_pairs_of_a_slow_node_hide_no_other_outlier(cluster: InventedCluster, table: DelayTable) -> None:
    grouping = group_by_zone(cluster.zones)
    assert grouping is not None
    slow = table.names.index(cluster.slow)
    far = int(np.flatnonzero((table.source != slow) & (table.target != slow) & ~table.is_lost)[0])
    table.rtt_ms[far] += 200
    rows = outlier_rows(table, grouping, group_matrix(table, grouping), np.array([slow]))
    assert rows.tolist() == [far]
