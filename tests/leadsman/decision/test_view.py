"""A view says of each node what its state says, however it came about, and makes nothing twice while it holds."""

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.decision import view as views_module
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy
from leadsman.decision.view import View, Views, median
from leadsman.state.records import Heartbeat
from leadsman.state.snapshot import NodeState, Snapshot

NODES = ["a", "b", "c", "d", "e", "f"]
POLICY = Policy()


def state(seq: int, changed_at: float | None = 0.0, interval_seconds: float = 5.0) -> NodeState:
    return NodeState(heartbeat=Heartbeat(1, seq, interval_seconds), changed_at=changed_at)


def seqs(states: Sequence[NodeState]) -> list[float]:
    return [float(each.heartbeat.seq) for each in states if each.heartbeat]


def texts(states: Sequence[NodeState]) -> list[str | None]:
    return [str(each.heartbeat.seq) if each.heartbeat and each.heartbeat.seq % 2 else None for each in states]


def view_of(views: Views, states: dict[str, NodeState], now: float = 0.0, names: Sequence[str] = ()) -> View:
    snapshot = Snapshot(MappingProxyType(states))
    return DecisionInputs(snapshot, POLICY, now, views).view(names)


changes = st.dictionaries(st.sampled_from(NODES), st.none() | st.builds(state, st.integers(0, 99)), max_size=4)


@given(st.lists(st.tuples(changes, st.lists(st.sampled_from([*NODES, "x", "y"]), max_size=2)), max_size=12))
def test_columns_that_followed_changes_are_those_of_a_new_view(
    steps: list[tuple[dict[str, NodeState], list[str]]],
) -> None:
    """Nodes come, report and go, and others are asked about."""
    views, states = Views(), dict[str, NodeState]()
    for changed, names in steps:
        states = {node: each for node, each in (states | changed).items() if each is not None}
        view = view_of(views, states, names=names)
        assert view.index.covers([*states, *names])
        numbers, words = view.column("seq", seqs, -1.0), view.column("text", texts, None)
        for node in [*NODES, "x", "y", "nobody"]:
            at = view.index.position(node)
            [number], [word] = ([-1.0], [None]) if node not in states else (seqs([states[node]]), texts([states[node]]))
            assert (numbers[at], words[at], view.fresh[at]) == (number, word, node in states)


@pytest.mark.parametrize(("later", "fresh"), [(0.0, True), (14.9, True), (15.0, False)])
def test_a_view_ends_when_the_freshness_of_a_node_changes(later: float, fresh: bool) -> None:
    views, states = Views(), {"a": state(1), "b": state(1, None), "c": NodeState()}
    snapshot = Snapshot(MappingProxyType(states))
    first, then = (DecisionInputs(snapshot, POLICY, now, views).view() for now in (0.0, later))
    assert (then is first) is fresh
    assert [node for at, node in enumerate(then.index.nodes) if then.fresh[at]] == (["a"] if fresh else [])


def test_what_a_view_made_is_made_once_and_for_the_very_same_objects() -> None:
    views, made = Views(), list[int]()
    snapshot, nodes = Snapshot(MappingProxyType({"a": state(1)})), ("a", "b")

    def make() -> int:
        made.append(1)
        return len(made)

    inputs = DecisionInputs(snapshot, POLICY, 0.0, views)
    assert [inputs.view().once("key", make, nodes) for _ in range(2)] == [1, 1]
    assert inputs.view().once("key", make, nodes[:1] + nodes[1:]) == 2
    other_policy = DecisionInputs(snapshot, Policy(initial_layers=(5.0,)), 0.0, views)
    assert other_policy.view().once("key", make, nodes) == 3
    assert inputs.view().once("key", make, nodes) == 1, "the view before is found again"


def test_views_and_names_and_columns_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views_module, "UNASKED_VIEWS", 5)
    views = Views()
    for turn in range(50):
        view = view_of(views, {"a": state(turn)}, now=2.0 * turn, names=[f"gone-{turn}"])
        if turn < 10:
            view.column("forgotten", seqs, -1.0)
    assert len(view.index) < 10
    assert "forgotten" not in view._columns
    assert len(views._views) == 1


@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_the_median_is_numpy_s(values: list[float]) -> None:
    assert median(np.array(values)) == np.median(values)
