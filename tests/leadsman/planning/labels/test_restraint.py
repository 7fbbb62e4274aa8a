"""Steady, within budgets, and nothing where data are missing."""

from typing import Any

import pytest

from leadsman.planning.labels.label_plan import LabelLimits, PlanMemory
from tests.leadsman.planning.labels.label_cluster import FREE, HOT, Cluster, policy, rule


@pytest.mark.parametrize(
    ("operator", "target", "enters", "stays", "leaves"),
    [
        ("GreaterThan", 100, 101, "80001m", 80),
        ("GreaterThan", -100, -99, "-119999m", -120),
        ("GreaterThan", 0, 1, "1n", 0),
        ("LessThan", 100, 99, "119999m", 120),
        ("LessThan", -100, -101, "-80001m", -80),
        ("Equals", 5, 5, 5, "5001m"),
    ],
)
def test_hysteresis_leaves_when_a_fifth_of_the_target_is_won_back(
    operator: str, target: int, enters: Any, stays: Any, leaves: Any
) -> None:
    cluster, marking = Cluster("a"), policy(deschedule=[rule("m", operator, target)])
    for value, marked in ((enters, True), (stays, True), (leaves, False)):
        cluster.step([marking], {"m": {"a": value}})
        assert bool(cluster.ours("a")) is marked, value
    if operator != "Equals" and stays != "1n":
        cluster.step([marking], {"m": {"a": stays}})
        assert not cluster.ours("a"), "the band between does not enter"


def test_a_label_is_held_for_a_minute() -> None:
    cluster = Cluster("a", limits=LabelLimits(marks_per_second=9))
    cluster.step([HOT], {"heat": {"a": 101}})
    (held,) = cluster.step([HOT], {"heat": {"a": 1}}, after=1.0).withheld
    assert held.why == "changed 0 s ago; held for 60 s"
    cluster.step([HOT], {"heat": {"a": 1}}, after=59.0)
    assert cluster.ours("a") == {"p": "violating"}
    cluster.step([HOT], {"heat": {"a": 1}}, after=1.0)
    assert cluster.ours("a") == {}


def test_a_restarted_controller_holds_what_it_finds() -> None:
    cluster = Cluster("a", limits=LabelLimits())
    cluster.step([HOT], {"heat": {"a": 101}})
    cluster.memory = PlanMemory()
    cluster.step([HOT], {"heat": {"a": 1}}, after=1000)
    assert cluster.ours("a") == {"p": "violating"}


def test_a_flapping_metric_changes_a_label_six_times_an_hour() -> None:
    cluster = Cluster("a", limits=LabelLimits())
    changes = 0
    for minute in range(60):
        made = cluster.step([HOT], {"heat": {"a": 101 if minute % 2 else 1}}, after=60.0)
        changes += len(made.actions)
    assert changes == 6
    assert cluster.step([HOT], {"heat": {"a": 101}}).withheld[0].why.startswith("changed 6 times")
    cluster.step([HOT], {"heat": {"a": 101}}, after=3600.0)
    assert cluster.ours("a") == {"p": "violating"}


def test_at_most_a_tenth_of_the_nodes_is_marked() -> None:
    nodes = [f"n{number:02}" for number in range(30)]
    cluster = Cluster(*nodes, limits=LabelLimits())
    for _ in range(20):
        made = cluster.step([HOT], {"heat": dict.fromkeys(nodes, 101)}, after=60.0)
    assert sum(bool(cluster.ours(node)) for node in nodes) == 3
    assert "3 of 30 nodes are marked; at most 3 are allowed" in {each.why for each in made.withheld}


def test_marks_come_at_a_tenth_of_a_node_a_second() -> None:
    nodes = [f"n{number:03}" for number in range(200)]
    cluster = Cluster(*nodes, limits=LabelLimits())
    for second in range(100):
        cluster.step([HOT], {"heat": dict.fromkeys(nodes, 101)})
        assert sum(bool(cluster.ours(node)) for node in nodes) <= 1 + second / 10
    assert sum(bool(cluster.ours(node)) for node in nodes) == 10


def test_hysteresis_of_one_rule_gives_no_reason_for_another_s_labels() -> None:
    """Two rules write x=2; that one of them did does not mean that the other is violated."""
    rules = [rule("n", "GreaterThan", 0, "x=2"), rule("n", "LessThan", 1, "x=2", "y=1")]
    cluster = Cluster("a")
    for _ in range(2):
        cluster.step([policy(labeling=rules)], {"n": {"a": 1}})
    assert cluster.ours("a") == {"telemetry.aware.scheduling.p/x": "2"}


@pytest.mark.parametrize(("value", "stays"), [(81, True), (80, False)])
def test_rules_of_all_of_have_their_hysteresis_together(value: int, stays: bool) -> None:
    rules = [rule("m", "GreaterThan", 100, "x=1"), rule("n", "GreaterThan", 100)]
    cluster, both = Cluster("a"), policy(labeling={"rules": rules, "logicalOperator": "allOf"})
    cluster.step([both], {"m": {"a": 101}, "n": {"a": 101}})
    cluster.step([both], {"m": {"a": 101}, "n": {"a": value}})
    assert bool(cluster.ours("a")) is stays


def test_nothing_changes_while_fewer_than_half_of_the_nodes_are_fresh() -> None:
    cluster = Cluster("a", "b", "c", limits=FREE)
    cluster.step([HOT], {"heat": {"a": 101, "b": 1, "c": 1}})
    made = cluster.step([HOT], {"heat": {"b": 101}}, after=20.0)
    assert made.stopped == ("policy ns/p: only 1 of 3 nodes have a current heat; its labels stay",)
    assert made.patches == ()
    cluster.step([HOT], {"heat": {"b": 101, "c": 1}})
    assert cluster.ours("b") == {"p": "violating"}


@pytest.mark.parametrize(("mode", "stays"), [("open", False), ("closed", True)])
def test_a_node_that_fell_silent_keeps_its_mark_only_when_the_policy_fails_closed(mode: str, stays: bool) -> None:
    cluster, hot = (
        Cluster("a", "b", "c"),
        policy(fail=mode, deschedule=[rule("heat", "GreaterThan", 100)]),
    )
    cluster.step([hot], {"heat": {"a": 101, "b": 1, "c": 1}})
    cluster.step([hot], {"heat": {"b": 1, "c": 1}})
    assert bool(cluster.ours("a")) is stays
