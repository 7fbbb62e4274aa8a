"""Exactly the labels that the policies want, and only on what is ours."""

import json
from typing import Any

import pytest

from leadsman.kube.names import OWNERSHIP_ANNOTATION
from leadsman.planning.labels.label_plan import LabelLimits, NodeView
from tests.leadsman.planning.labels.label_cluster import HOT, Cluster, policy, rule


def test_a_violating_node_is_marked_and_a_healed_one_is_not() -> None:
    cluster = Cluster("a", "b")
    cluster.step([HOT], {"heat": {"a": 101, "b": 100}})
    assert (cluster.ours("a"), cluster.ours("b")) == ({"p": "violating"}, {})
    cluster.step([HOT], {"heat": {"a": 80, "b": 100}})
    assert cluster.ours("a") == {}
    assert cluster.nodes["a"].annotations == {}


@pytest.mark.parametrize(
    ("operator", "one", "two", "kept"),
    [
        ("GreaterThan", "1100m", "1200m", "2"),
        ("GreaterThan", 300, 200, "1"),
        ("GreaterThan", 200, 200, "1"),
        ("LessThan", -3, -2, "1"),
        ("LessThan", -2, "-2500m", "2"),
        ("LessThan", -2, -2, "1"),
        ("Equals", 1, 1, "1"),
    ],
)
def test_of_rules_with_one_label_the_extreme_keeps_it_and_in_a_tie_the_first(
    operator: str, one: Any, two: Any, kept: str
) -> None:
    target = {"GreaterThan": 1, "LessThan": -1, "Equals": 1}[operator]
    sharing = policy(labeling=[rule("one", operator, target, "foo=1"), rule("two", operator, target, "foo=2")])
    cluster = Cluster("a")
    cluster.step([sharing], {"one": {"a": one}, "two": {"a": two}})
    assert cluster.ours("a") == {"telemetry.aware.scheduling.p/foo": kept}


def test_a_rule_that_loses_one_label_keeps_its_others() -> None:
    """The original wrote all labels of a rule that kept any of them, so two values of one key at once."""
    rules = [
        rule("one", "GreaterThan", 0, "foo=1", "one=yes"),
        rule("two", "GreaterThan", 0, "foo=2", "two=yes"),
    ]
    cluster = Cluster("a")
    cluster.step([policy(labeling=rules)], {"one": {"a": 1}, "two": {"a": 2}})
    prefix = "telemetry.aware.scheduling.p"
    assert cluster.ours("a") == {f"{prefix}/foo": "2", f"{prefix}/one": "yes", f"{prefix}/two": "yes"}


@pytest.mark.parametrize(("logic", "marked"), [("anyOf", True), ("allOf", False)])
@pytest.mark.parametrize("strategy", ["deschedule", "labeling"])
def test_a_logical_operator_counts_in_both_strategies(strategy: str, logic: str, marked: bool) -> None:
    rules = [rule("heat", "GreaterThan", 80, "x=1"), rule("free", "LessThan", 200, "y=1")]
    strategies: dict[str, Any] = {strategy: {"rules": rules, "logicalOperator": logic}}
    cluster = Cluster("a")
    cluster.step([policy(**strategies)], {"heat": {"a": 81}, "free": {"a": 300}})
    assert bool(cluster.ours("a")) is marked


def test_a_changed_value_is_one_patch_that_never_takes_the_label_away() -> None:
    rules = [rule("one", "GreaterThan", 0, "foo=1"), rule("two", "GreaterThan", 0, "foo=2")]
    cluster, sharing = Cluster("a"), policy(labeling=rules)
    cluster.step([sharing], {"one": {"a": 2}, "two": {"a": 1}})
    (patch,) = cluster.step([sharing], {"one": {"a": 2}, "two": {"a": 3}}).patches
    assert patch.labels == {"telemetry.aware.scheduling.p/foo": "2"}


def test_a_label_that_is_not_ours_is_never_touched() -> None:
    cluster = Cluster("a", "b")
    cluster.nodes["a"] = NodeView("a", {"p": "violating"})
    cluster.nodes["b"] = NodeView("b", {"p": "of somebody"})
    made = cluster.step([HOT], {"heat": {"a": 1, "b": 101}})
    assert made.patches == ()
    assert all(each.foreign for each in made.withheld)
    assert {each.action.node: each.why for each in made.withheld} == {
        "a": "p=violating is not recorded as ours; --adopt takes it over",
        "b": "p=of somebody is somebody else's; remove that label or rename the policy",
    }


def test_a_forged_record_does_not_make_us_remove_other_labels() -> None:
    cluster = Cluster("a")
    forged = json.dumps({"kubernetes.io/hostname": "ns/gone", "other": "ns/gone", "gone": "ns/gone"})
    cluster.nodes["a"] = NodeView(
        "a", {"kubernetes.io/hostname": "a", "other": "x", "gone": "y"}, {OWNERSHIP_ANNOTATION: forged}
    )
    cluster.step([], {})
    assert cluster.nodes["a"].labels == {"kubernetes.io/hostname": "a", "other": "x"}


@pytest.mark.parametrize("record", ["[]", "{", '{"p": 1}', '{"p": "without a slash"}'])
def test_a_node_whose_record_cannot_be_read_is_left_alone(record: str) -> None:
    cluster = Cluster("a")
    cluster.nodes["a"] = NodeView("a", {"p": "violating"}, {OWNERSHIP_ANNOTATION: record})
    made = cluster.step([HOT], {"heat": {"a": 101}})
    assert made.patches == ()
    assert "annotation leadsman.dev/telemetry-labels of node a cannot be parsed; fix or remove it" in made.stopped[0]


def test_a_label_that_somebody_removed_comes_back_and_one_that_nobody_wants_leaves_the_record() -> None:
    cluster = Cluster("a")
    cluster.step([HOT], {"heat": {"a": 101}})
    cluster.nodes["a"] = NodeView("a", {}, cluster.nodes["a"].annotations)
    cluster.step([HOT], {"heat": {"a": 101}})
    assert cluster.ours("a") == {"p": "violating"}
    cluster.nodes["a"] = NodeView("a", {}, cluster.nodes["a"].annotations)
    cluster.step([HOT], {"heat": {"a": 1}})
    assert cluster.nodes["a"].annotations == {}


def test_what_the_original_left_is_taken_over_when_asked() -> None:
    left = {"p": "violating", "telemetry.aware.scheduling.gone/x": "1", "other": "violating"}
    cluster = Cluster("a", limits=LabelLimits(hold_seconds=0, adopt=True))
    cluster.nodes["a"] = NodeView("a", left)
    cluster.step([HOT], {"heat": {"a": 1}})
    assert cluster.nodes["a"].labels == {"other": "violating"}
