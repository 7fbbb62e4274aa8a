"""A memo computes a node again only when its state is another object, and never changes an answer."""

from collections.abc import Callable

from clusterstate.snapshot import NodeState, Snapshot
from decision.memo import Memo

OLD, NEW = NodeState(changed_at=1.0), NodeState(changed_at=2.0)


def recorder(seen: list[NodeState]) -> Callable[[NodeState], float | None]:
    def changed_at(state: NodeState) -> float | None:
        seen.append(state)
        return state.changed_at

    return changed_at


def test_only_changed_nodes_are_computed_again() -> None:
    memo, seen = Memo(), []
    assert memo.column("c", None, recorder(seen), Snapshot({"a": OLD, "b": OLD})) == {"a": 1.0, "b": 1.0}
    assert memo.column("c", None, recorder(seen), Snapshot({"a": OLD, "b": NEW})) == {"a": 1.0, "b": 2.0}
    assert seen == [OLD, OLD, NEW]


def test_the_same_snapshot_computes_nothing() -> None:
    memo, seen, snapshot = Memo(), [], Snapshot({"a": OLD})
    assert memo.column("c", None, recorder(seen), snapshot) is memo.column("c", None, recorder(seen), snapshot)
    assert seen == [OLD]


def test_a_departed_node_leaves_no_trace() -> None:
    memo = Memo()
    memo.column("c", None, recorder([]), Snapshot({"a": OLD, "b": OLD}))
    assert memo.column("c", None, recorder([]), Snapshot({"b": OLD})) == {"b": 1.0}


def test_other_parameters_and_other_names_are_computed_anew() -> None:
    memo, snapshot = Memo(), Snapshot({"a": OLD})
    memo.column("c", 1, lambda _: "one", snapshot)
    assert memo.column("c", 2, lambda _: "two", snapshot) == {"a": "two"}
    assert memo.column("d", 2, lambda _: "three", snapshot) == {"a": "three"}


def test_a_reader_keeps_the_column_it_was_given() -> None:
    memo = Memo()
    before = memo.column("c", None, recorder([]), Snapshot({"a": OLD}))
    memo.column("c", None, recorder([]), Snapshot({"a": NEW}))
    assert before == {"a": 1.0}
