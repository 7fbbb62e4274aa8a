"""Exactly the labels that the policies want, and only on what is ours."""

import json
from typing import Any

import pytest

from leadsman.decision.inputs import DecisionInputs, TasPolicies, TelemetryInputs
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry.taspolicy import PolicyKey, PolicyProblem, RefusedPolicy
from leadsman.kube.names import CHANGES_ANNOTATION, OWNERSHIP_ANNOTATION
from leadsman.planning.labels.label_plan import (
    MAX_LABELS,
    MAX_TIMES,
    LabelLimits,
    NodeView,
    PlanMemory,
    format_changes,
    parse_changes,
)
from leadsman.state.snapshot import Snapshot
from tests.leadsman.decision.telemetry.tas import policy, rule
from tests.leadsman.planning.labels.label_cluster import HOT, Cluster


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


# Policies that come, change and go leave exactly the labels that they should.


def test_a_deleted_policy_leaves_nothing_behind_and_at_once() -> None:
    both = policy(deschedule=[rule("m", "GreaterThan", 1)], labeling=[rule("m", "GreaterThan", 1, "x=1")])
    cluster = Cluster("a", limits=LabelLimits())
    cluster.step([both], {"m": {"a": 2}})
    assert len(cluster.ours("a")) == 2
    cluster.step([], {})
    assert cluster.nodes["a"] == NodeView("a", {"kubernetes.io/hostname": "a"})


def test_an_edit_acts_at_once_and_without_hysteresis() -> None:
    cluster = Cluster("a", limits=LabelLimits())
    cluster.step([policy(labeling=[rule("m", "GreaterThan", 100, "x=1")])], {"m": {"a": 101}})
    cluster.step([policy(labeling=[rule("m", "GreaterThan", 110, "x=1")])], {"m": {"a": 101}})
    assert cluster.ours("a") == {}


def test_two_policies_of_one_name_share_the_mark_and_do_not_fight() -> None:
    cluster = Cluster("a")
    one, two = (
        policy("p", namespace, deschedule=[rule(m, "GreaterThan", 1)]) for namespace, m in (("one", "m"), ("two", "n"))
    )
    cluster.step([one, two], {"m": {"a": 2}, "n": {"a": 2}})
    assert cluster.step([one, two], {"m": {"a": 2}, "n": {"a": 2}}).patches == ()
    cluster.step([one, two], {"m": {"a": 0}, "n": {"a": 2}})
    assert cluster.ours("a") == {"p": "violating"}
    cluster.step([one], {"m": {"a": 0}, "n": {"a": 2}})
    assert cluster.ours("a") == {}


def test_nothing_is_done_before_the_policies_are_listed() -> None:
    cluster = Cluster("a")
    cluster.step([HOT], {"heat": {"a": 101}})
    made = cluster.round(DecisionInputs(Snapshot(), Policy(), cluster.now))
    assert (made.patches, made.stopped) == ((), ("telemetry policies are not listed yet; labels are left as they are",))


def test_labels_of_a_policy_whose_only_version_is_a_bad_one_stay() -> None:
    """After a restart the last good one is not known; a slip in an edit is no reason to remove what it wrote."""
    cluster = Cluster("a")
    cluster.step([HOT], {"heat": {"a": 101}})
    refused = {PolicyKey("ns", "p"): RefusedPolicy(PolicyProblem("spec", "bad"))}
    cluster.round(
        DecisionInputs(
            Snapshot(), Policy(), cluster.now, telemetry=TelemetryInputs(TasPolicies({}, refused, loaded=True))
        )
    )
    assert cluster.ours("a") == {"p": "violating"}


# The next leader goes on counting what the last one changed.

LIMITS = LabelLimits(max_marked_ratio=1.0, marks_per_second=1e9, hold_seconds=60.0, max_flips_per_hour=6)
WALL = 1.7e9


def flap(cluster: Cluster, rounds: int) -> int:
    """Heats or cools node a so many times, a minute each. Returns how many changes were made."""
    made = 0
    for _ in range(rounds):
        metrics = {"heat": {"a": 1 if cluster.ours("a") else 101}}
        made += len(cluster.step([HOT], metrics, after=61.0).actions)
        cluster.step([HOT], metrics)  # Which sees the change.
    return made


def test_a_new_leader_holds_back_what_the_last_one_changed_too_often() -> None:
    cluster = Cluster("a", limits=LIMITS, wall_ahead=WALL)
    assert flap(cluster, 4) == 4
    cluster.change_leader()
    assert flap(cluster, 6) == 2
    made = cluster.step([HOT], {"heat": {"a": 101}}, after=61.0)
    assert "changed 6 times within an hour (limit 6)" in made.withheld[0].why


def test_a_wall_clock_that_went_back_makes_no_change_to_come() -> None:
    node = NodeView("a", annotations={CHANGES_ANNOTATION: f'{{"p":[{WALL - 9:.0f},{WALL + 500:.0f}]}}'})
    assert dict(parse_changes(node, WALL)) == {"p": [9.0, 0.0]}


@pytest.mark.parametrize("record", ["", "{", "[]", '{"p":1}', '{"p":["x"]}'])
def test_a_record_that_nobody_can_read_says_nothing(record: str) -> None:
    assert list(parse_changes(NodeView("a", annotations={CHANGES_ANNOTATION: record}), WALL)) == []


def test_a_record_is_bounded_and_keeps_what_changed_most() -> None:
    changed_at = {f"label-{number}": [WALL] for number in range(2 * MAX_LABELS)} | {"often": [WALL] * (2 * MAX_TIMES)}
    record = format_changes(changed_at)
    assert record is not None
    ages = dict(parse_changes(NodeView("a", annotations={CHANGES_ANNOTATION: record}), WALL))
    assert len(ages) == MAX_LABELS
    assert len(ages["often"]) == MAX_TIMES


# Steady, within budgets, and nothing where data are missing.


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
    cluster = Cluster("a", "b", "c")
    cluster.step([HOT], {"heat": {"a": 101, "b": 1, "c": 1}})
    made = cluster.step([HOT], {"heat": {"b": 101}}, after=20.0)
    assert made.stopped == ("policy ns/p: only 1 of 3 nodes have a current heat; its labels stay",)
    assert made.patches == ()
    cluster.step([HOT], {"heat": {"b": 101, "c": 1}})
    assert cluster.ours("b") == {"p": "violating"}


@pytest.mark.parametrize(("mode", "stays"), [("open", False), ("closed", True)])
def test_a_node_that_fell_silent_keeps_its_mark_only_when_the_policy_fails_closed(mode: str, stays: bool) -> None:
    hot = policy(metrics={"failMode": mode}, deschedule=[rule("heat", "GreaterThan", 100)])
    cluster = Cluster("a", "b", "c")
    cluster.step([hot], {"heat": {"a": 101, "b": 1, "c": 1}})
    cluster.step([hot], {"heat": {"b": 1, "c": 1}})
    assert bool(cluster.ours("a")) is stays
