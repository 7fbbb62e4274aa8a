"""The changes between two tables, applied to the first, are the second, in its order."""

from hypothesis import given
from hypothesis import strategies as st

from leadsman.sources.recording.tables import apply_changes, table_changes

TABLES = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from([object() for _ in range(4)]))


@given(TABLES, TABLES)
def test_the_second_table_comes_back_in_its_order(before: dict[str, object], after: dict[str, object]) -> None:
    changes = table_changes(before, after)
    made = apply_changes(before, {key: after[key] for key in changes.changed}, changes.gone, changes.order)
    assert list(made.items()) == list(after.items())


@given(TABLES)
def test_an_equal_table_has_no_changes(table: dict[str, object]) -> None:
    assert table_changes(table, dict(table)) == ((), (), None) or not any(table_changes(table, dict(table)))


def test_only_replaced_values_count_as_changed() -> None:
    same, old, new = object(), object(), object()
    assert table_changes({"a": same, "b": old}, {"a": same, "b": new}) == (["b"], (), None)


def test_a_key_that_went_and_came_back_stands_at_the_end() -> None:
    value = object()
    before, after = {"a": value, "b": value}, {"b": value, "a": value}
    assert table_changes(before, after).order == ["b", "a"]
