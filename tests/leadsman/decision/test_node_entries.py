"""The column of one name is what a dict for each node would say, whatever changed before."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from leadsman.decision.node_entries import NamedValues, NodeEntries
from leadsman.decision.node_index import NodeIndex

Table = dict[str, dict[str, float]]
ABSENT_VALUE = -1.0
NODES = [f"n-{number}" for number in range(6)]
NAMES = ["a", "b", "c"]

values = st.dictionaries(st.sampled_from(NAMES), st.floats(0, 100))
changes = st.lists(st.dictionaries(st.sampled_from(NODES), st.none() | values), max_size=6)


def named(tables: list[dict[str, float]]) -> NamedValues:
    numbers = [value for table in tables for value in table.values()]
    return NamedValues(
        [len(table) for table in tables], [name for table in tables for name in table], np.array(numbers)
    )


def applied(entries: NodeEntries, index: NodeIndex, change: dict[str, dict[str, float] | None]) -> NodeEntries:
    there = {node: table for node, table in change.items() if table is not None}
    gone = [node for node, table in change.items() if table is None]
    return entries.replaced(index.positions(there), named(list(there.values())), index.positions(gone))


def columns(entries: NodeEntries) -> dict[str, list[float]]:
    return {name: entries.column(name, ABSENT_VALUE).tolist() for name in NAMES}


def expected(table: Table, index: NodeIndex) -> dict[str, list[float]]:
    rows = [table.get(node, {}) for node in index.nodes]
    return {name: [*(row.get(name, ABSENT_VALUE) for row in rows), ABSENT_VALUE] for name in NAMES}


@given(changes)
def test_a_column_is_what_dicts_say_after_any_changes(turns: list[dict[str, dict[str, float] | None]]) -> None:
    index, table = NodeIndex(NODES), Table()
    entries = NodeEntries(index)
    for change in turns:
        entries = applied(entries, index, change)
        table |= {node: row or {} for node, row in change.items()}
        assert columns(entries) == expected(table, index)


@given(changes, st.permutations(NODES), st.integers(0, len(NODES)))
def test_a_move_to_another_index_keeps_what_the_index_has(
    turns: list[dict[str, dict[str, float] | None]], order: list[str], kept: int
) -> None:
    before, after, table = NodeIndex(NODES), NodeIndex(["new", *order[:kept]]), Table()
    entries = NodeEntries(before)
    for change in turns:
        entries = applied(entries, before, change)
        table |= {node: row or {} for node, row in change.items()}
    assert columns(entries.moved(after)) == expected(table, after)


def test_few_changes_stand_beside_many_entries_and_count() -> None:
    index = NodeIndex(f"n-{number}" for number in range(100))
    entries = applied(NodeEntries(index), index, {node: {"a": 1.0, "b": 2.0} for node in index.nodes})
    changed = applied(entries, index, {"n-3": {"a": 7.0}, "n-4": None})
    assert changed.column("a", ABSENT_VALUE)[2:6].tolist() == [1.0, 7.0, ABSENT_VALUE, 1.0]
    assert changed.column("b", ABSENT_VALUE)[2:6].tolist() == [2.0, ABSENT_VALUE, ABSENT_VALUE, 2.0]
    assert entries.column("a", ABSENT_VALUE)[3] == 1.0
