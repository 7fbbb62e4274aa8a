"""Exactly the labels that the policies want, and only on what is ours."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadsman.decision.inputs import DecisionInputs, TasPolicies, TelemetryInputs
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry.taspolicy import PolicyKey, PolicyProblem, RefusedPolicy, TasPolicy
from leadsman.kube.names import CHANGES_ANNOTATION, OWNERSHIP_ANNOTATION
from leadsman.planning.labels.label_plan import (
    MAX_LABELS,
    MAX_TIMES,
    LabelLimits,
    LabelPlan,
    NodeView,
    PlanMemory,
    format_changes,
    parse_changes,
)
from leadsman.planning.labels.label_planner import plan_labels
from leadsman.state.snapshot import Snapshot
from tests.leadsman.decision.telemetry import tas
from tests.leadsman.decision.telemetry.tas import policy, rule

FREE = LabelLimits(max_marked_ratio=1.0, marks_per_second=1e9, hold_seconds=0.0, max_flips_per_hour=10**6)
"""Nothing but hysteresis and the stop where data are missing."""


class Cluster:
    """Nodes that take patches as the API server does, and one controller's memory of them.

    wall_ahead: of the wall clock, before the monotonic one; None: no record of changes is kept.
    """

    def __init__(self, *names: str, limits: LabelLimits = FREE, wall_ahead: float | None = None) -> None:
        self.nodes = {name: NodeView(name, {"kubernetes.io/hostname": name}) for name in names}
        self.limits, self.memory, self.now, self.wall_ahead = limits, PlanMemory(), 1000.0, wall_ahead

    def change_leader(self) -> None:
        """Another process plans. Its memory is empty, its monotonic clock another."""
        assert self.wall_ahead is not None
        self.memory, self.now, self.wall_ahead = PlanMemory(), 50.0, self.wall_ahead + self.now - 50.0

    def step(
        self, policies: Iterable[TasPolicy], metrics: Mapping[str, Mapping[str, Any]], after: float = 1.0
    ) -> LabelPlan:
        """One round of the controller, `after` seconds after the last one."""
        self.now += after
        return self.round(tas.facts(policies, metrics, self.now))

    def round(self, facts: DecisionInputs) -> LabelPlan:
        wall_now = None if self.wall_ahead is None else self.now + self.wall_ahead
        made = plan_labels(list(self.nodes.values()), facts, self.memory, self.limits, wall_now=wall_now)
        for patch in made.patches:
            self.apply(patch.body(), patch.node)
        self.memory = made.memory
        return made

    def apply(self, body: bytes, name: str) -> None:
        """RFC 7386 on the two maps."""
        node, metadata = self.nodes[name], json.loads(body)["metadata"]
        labels, annotations = (
            {k: v for k, v in {**before, **metadata[field]}.items() if v is not None}
            for field, before in (("labels", node.labels), ("annotations", node.annotations))
        )
        self.nodes[name] = NodeView(name, labels, annotations)

    def ours(self, name: str) -> dict[str, str]:
        return {key: value for key, value in self.nodes[name].labels.items() if key != "kubernetes.io/hostname"}


HOT = policy(deschedule=[rule("heat", "GreaterThan", 100)])
"""Marks nodes with heat over 100."""


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
    rules = [rule("one", "GreaterThan", 0, "foo=1", "one=yes"), rule("two", "GreaterThan", 0, "foo=2", "two=yes")]
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


@pytest.mark.parametrize(
    ("policies", "stopped"),
    [
        (TasPolicies(), ("telemetry policies are not listed yet; labels are left as they are",)),
        # After a restart the last good one is not known; a slip in an edit is no reason to remove what it wrote.
        (TasPolicies({}, {PolicyKey("ns", "p"): RefusedPolicy(PolicyProblem("spec", "bad"))}, loaded=True), ()),
    ],
    ids=["not listed yet", "its only version is a bad one"],
)
def test_labels_of_a_policy_that_is_not_known_now_stay(policies: TasPolicies, stopped: tuple[str, ...]) -> None:
    cluster = Cluster("a")
    cluster.step([HOT], {"heat": {"a": 101}})
    made = cluster.round(DecisionInputs(Snapshot(), Policy(), cluster.now, telemetry=TelemetryInputs(policies)))
    assert (made.patches, made.stopped, cluster.ours("a")) == ((), stopped, {"p": "violating"})


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


def test_a_new_leader_keeps_for_an_hour_what_a_metric_that_is_silent_set() -> None:
    """The other metric is reported, so the policy is not stopped as a whole."""
    both = policy(deschedule=[rule("heat", "GreaterThan", 100), rule("load", "GreaterThan", 100)])
    cluster = Cluster("a", "b", wall_ahead=0.0)
    cluster.step([both], {"heat": {"a": 101, "b": 1}, "load": {"a": 1, "b": 1}})
    cluster.change_leader()
    cluster.step([both], {"load": {"a": 1, "b": 1}})
    assert cluster.ours("a") == {"p": "violating"}
    cluster.step([both], {"load": {"a": 1, "b": 1}}, after=3600.0)
    assert cluster.ours("a") == {}


# Whatever the policies and the metrics: applied plans leave nothing to plan, and no trace without policies.

NODES = ("a", "b", "c")
AT_ONCE = LabelLimits(
    max_marked_ratio=1.0, marks_per_second=1e9, hold_seconds=0.0, leave_ratio=1.0, max_flips_per_hour=10**6
)

rules = st.fixed_dictionaries(
    {
        "metricname": st.sampled_from(["m", "n"]),
        "operator": st.sampled_from(["Equals", "LessThan", "GreaterThan"]),
        "target": st.integers(-2, 2),
        "labels": st.lists(st.sampled_from(["x=1", "x=2", "y=1", "bad", "=="]), max_size=2),
    }
)
strategies = st.fixed_dictionaries(
    {"rules": st.lists(rules, max_size=3), "logicalOperator": st.sampled_from(["anyOf", "allOf"])}
)
plain = st.builds(
    policy,
    st.sampled_from(["p", "q"]),
    st.sampled_from(["one", "two"]),
    st.sampled_from([{"failMode": "open"}, {"failMode": "closed"}]),
    deschedule=strategies,
    labeling=strategies,
)
policies = st.lists(plain, max_size=3, unique_by=lambda each: each.key)
metrics = st.fixed_dictionaries({m: st.dictionaries(st.sampled_from(NODES), st.integers(-3, 3)) for m in ("m", "n")})
limits = st.sampled_from([AT_ONCE, LabelLimits(), LabelLimits(hold_seconds=0), LabelLimits(leave_ratio=1.0)])


@settings(max_examples=100)
@given(
    rounds=st.lists(st.tuples(policies, metrics, st.sampled_from([0.0, 1.0, 61.0, 3700.0])), max_size=5), chosen=limits
)
def test_after_a_plan_is_applied_nothing_is_left_to_plan_and_without_policies_every_node_is_as_it_was(
    rounds: Sequence[Any], chosen: LabelLimits
) -> None:
    cluster = Cluster(*NODES, limits=chosen)
    before = dict(cluster.nodes)
    for given_policies, given_metrics, after in rounds:
        cluster.step(given_policies, given_metrics, after=after)
        assert cluster.step(given_policies, given_metrics, after=0.0).patches == ()
    cluster.step([], {}, after=0.0)
    assert cluster.nodes == before


@settings(max_examples=50)
@given(last=policies, values=metrics, rounds=st.lists(policies, max_size=4))
def test_the_labels_are_those_of_the_last_policies_whatever_was_before(
    last: Sequence[Any], values: Any, rounds: Sequence[Any]
) -> None:
    """Without hysteresis, all metrics known, one policy a name: so that no history may matter."""
    full = {m: {node: values[m].get(node, 0) for node in NODES} for m in ("m", "n")}
    unique = list({each.name: each for each in last}.values())
    fresh, used = Cluster(*NODES, limits=AT_ONCE), Cluster(*NODES, limits=AT_ONCE)
    for before in rounds:
        used.step(before, full)
    for cluster in (fresh, used):
        for _ in range(10):
            cluster.step(unique, full)
    assert [fresh.ours(node) for node in NODES] == [used.ours(node) for node in NODES]
