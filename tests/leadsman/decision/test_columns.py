"""A column is a mapping, and an array where that is enough."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from leadsman.decision.columns import Column, median, missing_nodes, select_column

TABLE = {"a": 0.25, "b": 0.75, "c": 1.0}


def test_a_column_is_the_mapping_of_its_nodes() -> None:
    column = Column(["b", "a"], [0.75, 0.25])
    assert column == {"a": 0.25, "b": 0.75}
    assert (list(column), len(column), column["a"], column.get("c")) == (["b", "a"], 2, 0.25, None)


def test_picked_keeps_the_order_asked() -> None:
    nodes = ("c", "a")
    column = select_column(nodes, TABLE)
    assert (column.nodes, column.numbers.tolist(), missing_nodes(nodes, column, TABLE)) == (nodes, [1.0, 0.25], [])


def test_what_the_table_lacks_is_left_out_and_named() -> None:
    nodes = ("x", "c", "y", "a")
    column = select_column(nodes, TABLE)
    assert column == {"c": 1.0, "a": 0.25}
    assert missing_nodes(nodes, column, TABLE) == ["x", "y"]


def test_values_stand_at_their_nodes_and_others_get_what_is_said() -> None:
    column = Column(("a", "b"), [0.25, 0.75])
    assert column.values_for(("b", "x", "a"), 0.5).tolist() == [0.75, 0.5, 0.25]


def test_at_its_own_nodes_a_column_makes_no_copy() -> None:
    column = select_column(("c", "a"), TABLE)
    assert column.values_for(column.nodes, 0.0) is column.numbers


def test_any_mapping_becomes_a_column() -> None:
    assert Column.of(TABLE) == TABLE
    assert Column.of(column := select_column(("a",), TABLE)) is column


def test_a_column_shows_what_it_holds() -> None:
    assert repr(Column(["a"], [1.0])) == "Column({'a': 1.0})"


def test_of_one_node_and_of_none_a_column_is_picked_like_of_many() -> None:
    assert select_column(("b",), TABLE) == {"b": 0.75}
    assert select_column((), TABLE) == {}


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9))
def test_the_median_is_numpy_s(values: list[float]) -> None:
    assert median(np.array(values)) == np.median(values)
