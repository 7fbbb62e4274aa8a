"""Nodes by position; a node that an index does not have stands at the last value of each array."""

import numpy as np

from leadsman.decision.node_index import ABSENT, NodeIndex

INDEX = NodeIndex(["b", "a", "b"])


def test_each_node_has_one_position() -> None:
    assert (INDEX.nodes, len(INDEX), INDEX.position("a"), INDEX.position("x")) == (("b", "a"), 2, 1, ABSENT)


def test_positions_are_in_the_order_asked_for_many_one_and_none() -> None:
    asked = (["a", "b"], ["a", "x", "b"], ["x"], ["a"], [])
    assert [INDEX.positions(nodes).tolist() for nodes in asked] == [[1, 0], [1, ABSENT, 0], [ABSENT], [1], []]


def test_an_extended_index_keeps_the_positions_of_its_nodes() -> None:
    longer = INDEX.extended(["c", "a"])
    assert longer.nodes == ("b", "a", "c")
    assert longer.covers(["a", "c"])
    assert not INDEX.covers(["a", "c"])


def test_placed_values_leave_out_nodes_that_the_index_does_not_have() -> None:
    placed = INDEX.place(["x", "a"], [1.0, 2.0], absent=np.inf)
    assert placed.tolist() == [np.inf, 2.0, np.inf]
    assert INDEX.mask(["x", "a"]).tolist() == [False, True, False]
