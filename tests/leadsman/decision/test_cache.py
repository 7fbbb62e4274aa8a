"""A memo computes again only what changed, and never changes an answer."""

import gc
import itertools
from collections.abc import Callable, Iterable

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, structs

from leadsman.decision.cache import (
    MAX_PERIODS,
    MAX_SNAPSHOT_ENTRIES,
    PERIOD_REUSE_SECONDS,
    SNAPSHOTS_PER_GENERATION,
    DecisionCache,
)
from leadsman.decision.node_index import NodeIndex
from leadsman.state.records import Heartbeat
from leadsman.state.snapshot import NodeState, Snapshot

OLD, NEW = NodeState(changed_at=1.0), NodeState(changed_at=2.0)


def recorder(seen: list[NodeState]) -> Callable[[NodeState], float | None]:
    def changed_at(state: NodeState) -> float | None:
        seen.append(state)
        return state.changed_at

    return changed_at


def test_only_changed_nodes_are_computed_again() -> None:
    memo, seen = DecisionCache(), []
    assert memo.per_node("c", None, recorder(seen), Snapshot({"a": OLD, "b": OLD})) == {"a": 1.0, "b": 1.0}
    assert memo.per_node("c", None, recorder(seen), Snapshot({"a": OLD, "b": NEW})) == {"a": 1.0, "b": 2.0}
    assert seen == [OLD, OLD, NEW]


def test_the_same_snapshot_computes_nothing() -> None:
    memo, seen, snapshot = DecisionCache(), [], Snapshot({"a": OLD})
    assert memo.per_node("c", None, recorder(seen), snapshot) is memo.per_node("c", None, recorder(seen), snapshot)
    assert seen == [OLD]


def test_a_departed_node_leaves_no_trace() -> None:
    memo = DecisionCache()
    memo.per_node("c", None, recorder([]), Snapshot({"a": OLD, "b": OLD}))
    assert memo.per_node("c", None, recorder([]), Snapshot({"b": OLD})) == {"b": 1.0}


def test_nodes_that_come_and_go_at_once_are_both_noticed() -> None:
    memo = DecisionCache()
    memo.per_node("c", None, recorder([]), Snapshot({"a": OLD, "b": OLD}))
    assert memo.per_node("c", None, recorder([]), Snapshot({"b": OLD, "c": NEW})) == {"b": 1.0, "c": 2.0}


def test_columns_that_were_made_at_different_times_each_catch_up() -> None:
    memo = DecisionCache()
    snapshots = [Snapshot({"a": OLD, "b": OLD}), Snapshot({"a": NEW, "b": OLD}), Snapshot({"a": NEW, "b": NEW})]
    memo.per_node("early", None, recorder([]), snapshots[0])
    memo.per_node("late", None, recorder([]), snapshots[1])
    assert memo.per_node("late", None, recorder([]), snapshots[2]) == {"a": 2.0, "b": 2.0}
    assert memo.per_node("early", None, recorder([]), snapshots[2]) == {"a": 2.0, "b": 2.0}


def test_a_node_of_which_there_is_nothing_to_say_is_left_out_until_there_is() -> None:
    memo, silent = DecisionCache(), NodeState()
    assert memo.per_node("c", None, recorder([]), Snapshot({"a": OLD, "b": silent})) == {"a": 1.0}
    assert memo.per_node("c", None, recorder([]), Snapshot({"a": silent, "b": NEW})) == {"b": 2.0}


def test_other_parameters_and_other_names_are_computed_anew() -> None:
    memo, snapshot = DecisionCache(), Snapshot({"a": OLD})
    memo.per_node("c", 1, lambda _: "one", snapshot)
    assert memo.per_node("c", 2, lambda _: "two", snapshot) == {"a": "two"}
    assert memo.per_node("d", 2, lambda _: "three", snapshot) == {"a": "three"}


def test_a_reader_keeps_the_column_it_was_given() -> None:
    memo = DecisionCache()
    before = memo.per_node("c", None, recorder([]), Snapshot({"a": OLD}))
    memo.per_node("c", None, recorder([]), Snapshot({"a": NEW}))
    assert before == {"a": 1.0}


FRESH = NodeState(heartbeat=Heartbeat(epoch=1, seq=1, push_interval_seconds=5.0), changed_at=100.0)
LATER = structs.replace(FRESH, changed_at=103.0)
SNAPSHOT = Snapshot({"a": FRESH, "b": LATER})


def made_at(memo: DecisionCache, now: float, snapshot: Snapshot = SNAPSHOT, key: str = "t") -> float:
    """The moment at which the table was made that holds now."""
    return memo.per_snapshot(key, lambda: now, snapshot, now)


def test_a_table_is_made_once_while_nobodys_freshness_changes() -> None:
    memo = DecisionCache()
    moments = (104.0, 114.9, 115.0, 117.9, 118.0, 999.0)
    assert [made_at(memo, now) for now in moments] == [104.0, 104.0, 115.0, 115.0, 118.0, 118.0]


def test_a_moment_before_a_table_was_made_gets_its_own() -> None:
    memo = DecisionCache()
    assert [made_at(memo, now) for now in (116.0, 114.0)] == [116.0, 114.0]


def test_another_snapshot_gets_another_table() -> None:
    memo = DecisionCache()
    made_at(memo, 104.0)
    assert made_at(memo, 105.0, Snapshot({"a": FRESH, "b": FRESH})) == 105.0


def test_the_tables_of_a_snapshot_outlive_the_next_ones_for_a_second() -> None:
    """A pod is scored on the snapshot that it was filtered on, while others are filtered on newer ones."""
    memo, newer = DecisionCache(), [Snapshot({"a": FRESH, "b": FRESH}) for _ in range(MAX_PERIODS)]
    made_at(memo, 104.0)
    for snapshot in newer[1:]:
        made_at(memo, 104.1, snapshot)
    assert made_at(memo, 104.2) == 104.0
    made_at(memo, 104.3, newer[0])
    assert made_at(memo, 104.4) == 104.4


def test_tables_a_second_old_go_when_newer_ones_come() -> None:
    memo, newer = DecisionCache(), Snapshot({"a": FRESH, "b": FRESH})
    made_at(memo, 104.0)
    made_at(memo, 104.0 + PERIOD_REUSE_SECONDS, newer)
    assert made_at(memo, 105.1) == 105.1


def test_tables_have_their_own_keys_and_are_few() -> None:
    memo = DecisionCache()
    assert [made_at(memo, now, key=key) for now, key in ((101.0, "t"), (102.0, "u"), (103.0, "t"))] == [101, 102, 101]
    for number in range(2 * MAX_SNAPSHOT_ENTRIES):
        made_at(memo, 104.0, key=f"t-{number}")
    assert made_at(memo, 105.0) == 105.0


def test_a_table_is_made_anew_with_other_sources_and_when_they_expire() -> None:
    memo, one, other = DecisionCache(), object(), object()

    def made(now: float, *others: object) -> float:
        return memo.per_snapshot("t", lambda: now, SNAPSHOT, now, others, until=106.0)

    assert [made(104.0, one), made(105.0, one), made(105.5, other), made(105.6), made(106.0)] == [
        104.0,
        104.0,
        105.5,
        105.6,
        106.0,
    ]


def test_columns_that_alternate_are_not_computed_again() -> None:
    """Two pods that name two nodes in turn."""
    memo, seen, snapshot = DecisionCache(), [], Snapshot({"a": OLD})
    for reference in ("edge-1", "edge-2", "edge-1", "edge-2"):
        memo.per_node("rtt_ms", reference, recorder(seen), snapshot)
    assert len(seen) == 2


def test_a_column_that_nobody_asks_for_holds_no_old_states() -> None:
    memo, old = DecisionCache(), {"a": NodeState()}
    memo.per_node("unused", None, recorder([]), Snapshot(old))
    for number in range(2 * SNAPSHOTS_PER_GENERATION + 1):
        memo.per_node("used", None, recorder([]), Snapshot({"a": NodeState(changed_at=float(number))}))
    del number
    assert not [each for each in gc.get_referrers(old) if isinstance(each, Struct)]


def test_a_row_is_made_once_for_its_owner() -> None:
    memo, owners, numbers = DecisionCache(), [object(), object()], itertools.count()
    made = [memo.per_object(owners[which], "k", lambda: next(numbers)) for which in (0, 0, 1, 0)]
    assert made == [0, 0, 1, 0]


def changed_at_of(seen: list[NodeState]) -> Callable[[Iterable[NodeState]], list[float]]:
    def of(states: Iterable[NodeState]) -> list[float]:
        seen.extend(states := list(states))
        return [state.changed_at or 0.0 for state in states]

    return of


def test_an_array_is_computed_again_only_where_a_node_changed() -> None:
    cache, seen = DecisionCache(), list[NodeState]()
    for states in ({"a": OLD, "b": OLD}, {"a": OLD, "b": NEW}):
        snapshot = Snapshot(states)
        array = cache.node_array("c", None, changed_at_of(seen), -1.0, snapshot, cache.index(snapshot))
    assert array.tolist() == [1.0, 2.0, -1.0]
    assert seen == [OLD, OLD, NEW]


STATES = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([OLD, NEW, LATER]))


@given(st.lists(st.tuples(STATES, st.lists(st.sampled_from("abcxyz"), max_size=2)), max_size=6))
def test_an_array_that_followed_changes_equals_a_new_one(steps: list[tuple[dict[str, NodeState], list[str]]]) -> None:
    cache = DecisionCache()
    for states, others in steps:
        snapshot = Snapshot(states)
        index = cache.index(snapshot, [(others, others)])
        assert index.covers([*states, *others])
        array = cache.node_array("c", None, changed_at_of([]), -1.0, snapshot, index)
        values = [states[node].changed_at if node in states else -1.0 for node in index.nodes]
        assert array.tolist() == [*values, -1.0]


def test_an_index_is_the_same_object_until_a_node_comes_or_goes() -> None:
    cache, names = DecisionCache(), ("x",)
    first = cache.index(Snapshot({"a": OLD}), [(names, names)])
    assert cache.index(Snapshot({"a": NEW})) is first
    assert "x" not in cache.index(Snapshot({"a": NEW, "b": NEW})).nodes


def test_names_that_were_asked_for_once_do_not_pile_up() -> None:
    cache, snapshot = DecisionCache(), Snapshot({"a": OLD})
    for number in range(100):
        names = (f"x-{number}",)
        cache.index(snapshot, [(names, names)])
    assert len(cache.index(snapshot)) < 10


def test_positions_of_a_tuple_are_looked_up_once_and_of_a_list_each_time() -> None:
    cache, index, nodes = DecisionCache(), NodeIndex("ab"), ("b", "a")
    assert cache.positions(nodes, index) is cache.positions(nodes, index)
    asked = ["a"]
    assert cache.positions(asked, index).tolist() == [0]
    asked[0] = "b"
    assert cache.positions(asked, index).tolist() == [1]


def test_a_result_is_made_again_for_an_equal_object_that_is_another() -> None:
    memo, made = DecisionCache(), itertools.count()
    nodes, equal = tuple("ab"), tuple("ab")
    first = memo.per_objects("k", (nodes,), lambda: [next(made)])
    assert memo.per_objects("k", (nodes,), lambda: [next(made)]) is first
    assert memo.per_objects("k", (equal,), lambda: [next(made)]) == [1]
    assert memo.per_objects("other", (nodes,), lambda: [next(made)]) == [2]
