"""scheduleonmetric as a score: in the metric's order, ties alike, an unmeasured node never above a measured one."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from leadsman.decision.decide import score_nodes
from leadsman.decision.inputs import DecisionInputs, PolledMetrics, Readings, TelemetryInputs
from leadsman.state.metric_names import CPU_PRESSURE
from leadsman.state.records import Hardware, Heartbeat
from leadsman.state.snapshot import NodeState
from tests.leadsman.decision.telemetry import tas

POD = tas.pod()


def known(strategy: Any, values: Mapping[str, Any], pressures: Mapping[str, float] | None = None) -> DecisionInputs:
    states = {
        node: NodeState(None, Heartbeat(1, 1, 5.0), None, Hardware({CPU_PRESSURE: ratio}), changed_at=tas.NOW - 1)
        for node, ratio in (pressures or {}).items()
    }
    return tas.facts([tas.policy(scheduleonmetric=strategy)], {"m": values}, states=states)


def scored(operator: str, values: Mapping[str, Any], nodes: Any, scoring: str = "rank") -> Mapping[str, int]:
    strategy = {"rules": [tas.rule("m", operator)], "scoring": scoring}
    return score_nodes(POD, tuple(nodes), known(strategy, values)).scores


@pytest.mark.parametrize(
    ("operator", "scoring", "expected"),
    [
        ("GreaterThan", "proportional", {"a": 1, "b": 2, "c": 6, "d": 10}),
        ("LessThan", "proportional", {"a": 10, "b": 9, "c": 5, "d": 1}),
        ("GreaterThan", "rank", {"a": 1, "b": 4, "c": 7, "d": 10}),
        ("LessThan", "rank", {"a": 10, "b": 7, "c": 4, "d": 1}),
    ],
)  # fmt: skip
def test_the_metric_orders_the_nodes(operator: str, scoring: str, expected: Mapping[str, int]) -> None:
    assert scored(operator, {"a": 0, "b": 10, "c": 60, "d": 100}, "abcd", scoring) == expected


@given(
    st.lists(st.integers(-50, 50), min_size=1, max_size=40),
    st.integers(0, 39),
    st.integers(0, 100),
    st.sampled_from(["proportional", "rank"]),
)
def test_a_lower_value_never_worsens_a_less_than_node(values: list[int], which: int, by: int, scoring: str) -> None:
    node = f"n{which % len(values)}"
    before = {f"n{number}": value for number, value in enumerate(values)}
    after = {**before, node: before[node] - by}
    nodes = tuple(before)
    assert scored("LessThan", after, nodes, scoring)[node] >= scored("LessThan", before, nodes, scoring)[node]


@pytest.mark.parametrize("scoring", ["proportional", "rank"])
def test_equal_values_have_equal_scores_in_whatever_order_asked(scoring: str) -> None:
    """The original broke ties at random."""
    values = {"a": 5, "b": "5000m", "c": 9}
    for nodes in ("abc", "cba", "bca"):
        scores = scored("GreaterThan", values, nodes, scoring)
        assert scores == {"a": 1, "b": 1, "c": 10}
        assert list(scores) == list(nodes)


@pytest.mark.parametrize("operator", ["GreaterThan", "LessThan", "Equals"])
def test_an_unmeasured_node_has_nothing(operator: str) -> None:
    """In the original it kept the built-in total while a measured one could get less than nothing."""
    scores = scored(operator, {"a": -5, "b": 5}, "abx")
    assert scores["x"] == 0 < min(scores["a"], scores["b"])


def test_a_metric_that_few_nodes_have_at_all_still_orders_those() -> None:
    scores = scored("GreaterThan", {"a": 1, "b": 2}, "abcdefgh")
    assert (scores["b"], scores["a"], scores["c"]) == (10, 1, 0)


def test_while_most_of_those_that_report_are_stale_it_says_nothing() -> None:
    facts = known({"rules": [tas.rule("m", "GreaterThan")]}, {})
    column = Readings({"a": 1, "b": 1, "c": 1}, {"a": tas.NOW, "b": 10.0, "c": 10.0}, 10.0)
    telemetry = TelemetryInputs(facts.telemetry.policies, (PolledMetrics({"m": column}),))
    ranked = score_nodes(POD, ("a", "b", "c"), structs.replace(facts, telemetry=telemetry))
    assert set(ranked.scores.values()) == {5}
    assert "telemetry policy ns/p: only 1 of 3 nodes have a current m" in ranked.neutral


NODES = "abcdef"


@given(
    st.dictionaries(st.sampled_from(NODES), st.integers(-(10**6), 10**6), min_size=1),
    st.sampled_from(["GreaterThan", "LessThan"]),
    st.sampled_from(["proportional", "rank"]),
    st.lists(st.floats(0, 1), min_size=6, max_size=6),
)
def test_beside_the_default_scores_the_order_stands_and_the_unmeasured_never_lead(
    values: Mapping[str, int], operator: str, scoring: str, pressures: list[float]
) -> None:
    strategy = {"rules": [tas.rule("m", operator)], "scoring": scoring}
    facts = known(strategy, values, dict(zip(NODES, pressures, strict=True)))
    scores = score_nodes(POD, tuple(NODES), facts).scores
    assert all(type(score) is int and 0 <= score <= 10 for score in scores.values())
    unmeasured = max((scores[node] for node in NODES if node not in values), default=0)
    assert unmeasured <= min(scores[node] for node in values)
    if scoring == "rank":
        better = sorted(values, key=lambda node: values[node], reverse=operator == "GreaterThan")
        ordered = [scores[node] for node in better]
        assert all(
            a >= b
            for a, b, x, y in zip(ordered, ordered[1:], better, better[1:], strict=False)
            if values[x] != values[y]
        )
