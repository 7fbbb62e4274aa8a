"""The plan: exactly the labels that the policies want, in steps that are small and steady enough."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterstate.snapshot import Snapshot
from decision.model import Facts
from decision.policy import Policy
from decision.remedies import Limits, Memory, NodeView, Plan, plan
from decision.telemetry import document, quantity
from decision.telemetry.known import Policies, Polled, Readings, Refused, Telemetry
from decision.telemetry.ownership import ANNOTATION
from decision.telemetry.policy import PolicyKey, Problem, TasPolicy

FREE = Limits(most_marked_ratio=1.0, marks_per_second=1e9, hold_seconds=0.0, most_flips_per_hour=10**6)
"""Nothing but hysteresis and the stop for want of data."""

Metrics = Mapping[str, Mapping[str, Any]]


def rule(metric: str, operator: str, target: int = 0, *labels: str) -> dict[str, Any]:
    return {"metricname": metric, "operator": operator, "target": target, "labels": list(labels)}


def policy(name: str = "p", namespace: str = "ns", fail: str = "open", **strategies: Any) -> TasPolicy:
    spec = {key: {"rules": of} if isinstance(of, list) else of for key, of in strategies.items()}
    metadata = {"name": name, "namespace": namespace}
    return document.parse({"metadata": metadata, "spec": {"strategies": spec, "metrics": {"failMode": fail}}})


def known(policies: Iterable[TasPolicy], metrics: Metrics, now: float, read_at: float | None = None) -> Facts:
    at = now if read_at is None else read_at
    columns = {
        metric: Readings({node: quantity.parse(str(v)) for node, v in of.items()}, dict.fromkeys(of, at), at)
        for metric, of in metrics.items()
    }
    used = {each.key: each for each in policies}
    return Facts(Snapshot(), Policy(), now, telemetry=Telemetry(Policies(used, loaded=True), (Polled(columns),)))


class Cluster:
    """Nodes that take patches as the API server does, and one controller's memory of them."""

    def __init__(self, *names: str, limits: Limits = FREE) -> None:
        self.nodes = {name: NodeView(name, {"kubernetes.io/hostname": name}) for name in names}
        self.limits, self.memory, self.now = limits, Memory(), 1000.0

    def step(self, policies: Iterable[TasPolicy], metrics: Metrics, after: float = 1.0, **more: Any) -> Plan:
        """One round of the controller, `after` seconds after the last one."""
        self.now += after
        return self.round(known(policies, metrics, self.now, **more))

    def round(self, facts: Facts) -> Plan:
        made = plan(list(self.nodes.values()), facts, self.memory, self.limits)
        for patch in made.patches:
            self.apply(patch.body(), patch.node)
        self.memory = made.memory
        return made

    def apply(self, body: bytes, name: str) -> None:
        """RFC 7386 on the two maps."""
        node, metadata = self.nodes[name], json.loads(body)["metadata"]
        merged = [
            {k: v for k, v in {**before, **metadata[field]}.items() if v is not None}
            for field, before in (("labels", node.labels), ("annotations", node.annotations))
        ]
        self.nodes[name] = NodeView(name, *merged)

    def ours(self, name: str) -> dict[str, str]:
        return {key: value for key, value in self.nodes[name].labels.items() if key != "kubernetes.io/hostname"}


HOT = policy(deschedule=[rule("heat", "GreaterThan", 100)])


def test_a_violating_node_is_marked_and_a_healed_one_is_not() -> None:
    cluster = Cluster("a", "b")
    cluster.step([HOT], {"heat": {"a": 101, "b": 100}})
    assert (cluster.ours("a"), cluster.ours("b")) == ({"p": "violating"}, {})
    cluster.step([HOT], {"heat": {"a": 80, "b": 100}})
    assert cluster.ours("a") == {}
    assert cluster.nodes["a"].annotations == {}


def test_the_reason_names_rule_and_value() -> None:
    (action,) = Cluster("a").step([HOT], {"heat": {"a": "100500m"}}).actions
    assert (action.node, action.label, action.value) == ("a", "p", "violating")
    assert str(action.policy) == "ns/p"
    assert action.reason == "heat GreaterThan 100: it is 100.5"


def test_labels_have_the_originals_keys() -> None:
    cluster = Cluster("a")
    cluster.step(
        [policy("scheduling-policy", labeling=[rule("m", "GreaterThan", 100, "label1=foo", "label2=bar")])],
        {"m": {"a": 101}},
    )
    prefix = "telemetry.aware.scheduling.scheduling-policy"
    assert cluster.ours("a") == {f"{prefix}/label1": "foo", f"{prefix}/label2": "bar"}


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


def test_operators_that_do_not_compare_leave_the_label_to_the_first() -> None:
    """The original panicked, and wrote none of the node's labels."""
    rules = [rule("one", "LessThan", 9, "foo=1"), rule("two", "GreaterThan", 0, "foo=2")]
    cluster = Cluster("a")
    cluster.step([policy(labeling=rules)], {"one": {"a": 1}, "two": {"a": 2}})
    assert cluster.ours("a") == {"telemetry.aware.scheduling.p/foo": "1"}


@pytest.mark.parametrize(("logic", "marked"), [("anyOf", True), ("allOf", False)])
@pytest.mark.parametrize("strategy", ["deschedule", "labeling"])
def test_a_logical_operator_counts_in_both_strategies(strategy: str, logic: str, marked: bool) -> None:
    rules = [rule("heat", "GreaterThan", 80, "x=1"), rule("free", "LessThan", 200, "y=1")]
    cluster = Cluster("a")
    cluster.step(
        [policy(**{strategy: {"rules": rules, "logicalOperator": logic}})], {"heat": {"a": 81}, "free": {"a": 300}}
    )
    assert bool(cluster.ours("a")) is marked


def test_a_changed_value_is_one_patch_that_never_takes_the_label_away() -> None:
    rules = [rule("one", "GreaterThan", 0, "foo=1"), rule("two", "GreaterThan", 0, "foo=2")]
    cluster, sharing = Cluster("a"), policy(labeling=rules)
    cluster.step([sharing], {"one": {"a": 2}, "two": {"a": 1}})
    (patch,) = cluster.step([sharing], {"one": {"a": 2}, "two": {"a": 3}}).patches
    assert patch.labels == {"telemetry.aware.scheduling.p/foo": "2"}


def test_all_changes_of_a_node_are_one_patch() -> None:
    both = policy(deschedule=[rule("heat", "GreaterThan", 1)], labeling=[rule("heat", "GreaterThan", 1, "x=1")])
    (patch,) = Cluster("a").step([both], {"heat": {"a": 2}}).patches
    assert set(patch.labels) == {"p", "telemetry.aware.scheduling.p/x"}


def test_a_label_that_is_not_ours_is_never_touched() -> None:
    cluster = Cluster("a", "b")
    cluster.nodes["a"] = NodeView("a", {"p": "violating"})
    cluster.nodes["b"] = NodeView("b", {"p": "of somebody"})
    made = cluster.step([HOT], {"heat": {"a": 1, "b": 101}})
    assert made.patches == ()
    assert [each.why for each in made.withheld] == ["the label stands there and is not ours"]


def test_a_forged_record_does_not_make_us_remove_other_labels() -> None:
    cluster = Cluster("a")
    forged = json.dumps({"kubernetes.io/hostname": "ns/gone", "other": "ns/gone", "gone": "ns/gone"})
    cluster.nodes["a"] = NodeView("a", {"kubernetes.io/hostname": "a", "other": "x", "gone": "y"}, {ANNOTATION: forged})
    cluster.step([], {})
    assert cluster.nodes["a"].labels == {"kubernetes.io/hostname": "a", "other": "x"}


@pytest.mark.parametrize("record", ["[]", "{", '{"p": 1}', '{"p": "without a slash"}'])
def test_a_node_whose_record_cannot_be_read_is_left_alone(record: str) -> None:
    cluster = Cluster("a")
    cluster.nodes["a"] = NodeView("a", {"p": "violating"}, {ANNOTATION: record})
    made = cluster.step([HOT], {"heat": {"a": 101}})
    assert made.patches == ()
    assert "annotation leadsman/telemetry-labels of node a is not ours" in made.stopped[0]


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
    cluster = Cluster("a", limits=Limits(hold_seconds=0, adopt=True))
    cluster.nodes["a"] = NodeView("a", left)
    cluster.step([HOT], {"heat": {"a": 1}})
    assert cluster.nodes["a"].labels == {"other": "violating"}


# Policies that come, change and go.


def test_a_deleted_policy_leaves_nothing_behind_and_at_once() -> None:
    both = policy(deschedule=[rule("m", "GreaterThan", 1)], labeling=[rule("m", "GreaterThan", 1, "x=1")])
    cluster = Cluster("a", limits=Limits())
    cluster.step([both], {"m": {"a": 2}})
    assert len(cluster.ours("a")) == 2
    cluster.step([], {})
    assert cluster.nodes["a"] == NodeView("a", {"kubernetes.io/hostname": "a"})


def test_a_renamed_policy_takes_its_labels_with_it() -> None:
    rules = [rule("m", "GreaterThan", 1, "x=1")]
    cluster = Cluster("a", limits=Limits())
    cluster.step([policy("old", labeling=rules)], {"m": {"a": 2}})
    cluster.step([policy("new", labeling=rules)], {"m": {"a": 2}})
    assert cluster.ours("a") == {"telemetry.aware.scheduling.new/x": "1"}


def test_an_edit_acts_at_once_and_without_hysteresis() -> None:
    cluster = Cluster("a", limits=Limits())
    cluster.step([policy(labeling=[rule("m", "GreaterThan", 100, "x=1")])], {"m": {"a": 101}})
    cluster.step([policy(labeling=[rule("m", "GreaterThan", 110, "x=1")])], {"m": {"a": 101}})
    assert cluster.ours("a") == {}


def test_an_edit_that_only_renames_a_value_swaps_it_in_one_patch() -> None:
    cluster = Cluster("a", limits=Limits())
    cluster.step([policy(labeling=[rule("m", "GreaterThan", 1, "x=1")])], {"m": {"a": 2}})
    (patch,) = cluster.step([policy(labeling=[rule("m", "GreaterThan", 1, "x=2")])], {"m": {"a": 2}}).patches
    assert patch.labels == {"telemetry.aware.scheduling.p/x": "2"}


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


def test_of_two_policies_of_one_name_that_want_different_values_the_owner_stays() -> None:
    cluster = Cluster("a")
    one, two = (policy("p", n, labeling=[rule(f"m-{n}", "GreaterThan", 1, f"x={n}")]) for n in ("one", "two"))
    cluster.step([two], {"m-two": {"a": 2}})
    for _ in range(3):
        assert cluster.step([one, two], {"m-one": {"a": 9}, "m-two": {"a": 2}}).patches == ()
    assert cluster.ours("a") == {"telemetry.aware.scheduling.p/x": "two"}
    cluster.step([one], {"m-one": {"a": 9}})
    assert cluster.ours("a") == {"telemetry.aware.scheduling.p/x": "one"}


def test_nothing_is_done_before_the_policies_are_listed() -> None:
    cluster = Cluster("a")
    cluster.step([HOT], {"heat": {"a": 101}})
    made = cluster.round(Facts(Snapshot(), Policy(), cluster.now))
    assert (made.patches, made.stopped) == ((), ("the policies are not listed yet",))


def test_labels_of_a_policy_whose_only_version_is_a_bad_one_stay() -> None:
    """After a restart the last good one is not known; a slip in an edit is no reason to remove what it wrote."""
    cluster = Cluster("a")
    cluster.step([HOT], {"heat": {"a": 101}})
    refused = {PolicyKey("ns", "p"): Refused(Problem("spec", "bad"))}
    cluster.round(Facts(Snapshot(), Policy(), cluster.now, telemetry=Telemetry(Policies({}, refused, loaded=True))))
    assert cluster.ours("a") == {"p": "violating"}


# Steadiness.


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
    cluster = Cluster("a", limits=Limits(marks_per_second=9))
    cluster.step([HOT], {"heat": {"a": 101}})
    (held,) = cluster.step([HOT], {"heat": {"a": 1}}, after=1.0).withheld
    assert held.why == "changed 0 s ago, stays 60 s"
    cluster.step([HOT], {"heat": {"a": 1}}, after=59.0)
    assert cluster.ours("a") == {"p": "violating"}
    cluster.step([HOT], {"heat": {"a": 1}}, after=1.0)
    assert cluster.ours("a") == {}


def test_a_restarted_controller_holds_what_it_finds() -> None:
    cluster = Cluster("a", limits=Limits())
    cluster.step([HOT], {"heat": {"a": 101}})
    cluster.memory = Memory()
    cluster.step([HOT], {"heat": {"a": 1}}, after=1000)
    assert cluster.ours("a") == {"p": "violating"}


def test_a_flapping_metric_changes_a_label_six_times_an_hour() -> None:
    cluster = Cluster("a", limits=Limits())
    changes = 0
    for minute in range(60):
        made = cluster.step([HOT], {"heat": {"a": 101 if minute % 2 else 1}}, after=60.0)
        changes += len(made.actions)
    assert changes == 6
    assert cluster.step([HOT], {"heat": {"a": 101}}).withheld[0].why.startswith("frozen: changed 6 times")
    cluster.step([HOT], {"heat": {"a": 101}}, after=3600.0)
    assert cluster.ours("a") == {"p": "violating"}


def test_at_most_a_tenth_of_the_nodes_is_marked() -> None:
    nodes = [f"n{number:02}" for number in range(30)]
    cluster = Cluster(*nodes, limits=Limits())
    for _ in range(20):
        made = cluster.step([HOT], {"heat": dict.fromkeys(nodes, 101)}, after=60.0)
    assert sum(bool(cluster.ours(node)) for node in nodes) == 3
    assert "3 of 30 nodes are marked, allowed 3" in {each.why for each in made.withheld}


def test_one_node_may_always_be_marked_and_none_when_switched_off() -> None:
    for ratio, marked in ((0.1, 1), (0.0, 0)):
        cluster = Cluster("a", "b", "c", limits=Limits(most_marked_ratio=ratio))
        for _ in range(3):
            cluster.step([HOT], {"heat": {"a": 101, "b": 101, "c": 101}}, after=60.0)
        assert sum(bool(cluster.ours(node)) for node in "abc") == marked


def test_marks_come_at_a_tenth_of_a_node_a_second() -> None:
    nodes = [f"n{number:03}" for number in range(200)]
    cluster = Cluster(*nodes, limits=Limits())
    for second in range(100):
        cluster.step([HOT], {"heat": dict.fromkeys(nodes, 101)})
        assert sum(bool(cluster.ours(node)) for node in nodes) <= 1 + second / 10
    assert sum(bool(cluster.ours(node)) for node in nodes) == 10


def test_labels_that_evict_nobody_have_no_budget() -> None:
    nodes = [f"n{number:03}" for number in range(100)]
    cluster = Cluster(*nodes, limits=Limits())
    cluster.step([policy(labeling=[rule("m", "GreaterThan", 1, "x=1")])], {"m": dict.fromkeys(nodes, 2)})
    assert all(cluster.ours(node) for node in nodes)


def test_nothing_changes_while_fewer_than_half_of_the_nodes_are_fresh() -> None:
    cluster = Cluster("a", "b", "c", limits=FREE)
    cluster.step([HOT], {"heat": {"a": 101, "b": 1, "c": 1}})
    made = cluster.step([HOT], {"heat": {"b": 101}}, after=20.0)
    assert made.stopped == ("policy ns/p: 1 of 3 nodes have a current heat",)
    assert made.patches == ()
    cluster.step([HOT], {"heat": {"b": 101, "c": 1}})
    assert cluster.ours("b") == {"p": "violating"}


def test_a_controller_that_has_heard_nothing_yet_changes_nothing() -> None:
    cluster = Cluster("a")
    cluster.step([HOT], {"heat": {"a": 101}})
    cluster.memory = Memory()
    made = cluster.step([HOT], {})
    assert (made.patches, made.stopped) == ((), ("policy ns/p: no node reports heat",))


def test_a_metric_that_some_nodes_only_have_is_no_want_of_data() -> None:
    cluster = Cluster(*"abcdefgh")
    cluster.step([policy(labeling=[rule("gpu", "GreaterThan", 1, "x=1")])], {"gpu": {"a": 2}})
    assert cluster.ours("a")


@pytest.mark.parametrize(("mode", "stays"), [("open", False), ("closed", True)])
def test_a_node_that_fell_silent_keeps_its_mark_only_when_the_policy_fails_closed(mode: str, stays: bool) -> None:
    cluster, hot = Cluster("a", "b", "c"), policy(fail=mode, deschedule=[rule("heat", "GreaterThan", 100)])
    cluster.step([hot], {"heat": {"a": 101, "b": 1, "c": 1}})
    cluster.step([hot], {"heat": {"b": 1, "c": 1}})
    assert bool(cluster.ours("a")) is stays


@pytest.mark.parametrize("strategy", ["deschedule", "labeling"])
def test_a_silent_node_is_never_labelled(strategy: str) -> None:
    cluster = Cluster("a", "b", "c")
    closed = policy(fail="closed", **{strategy: [rule("heat", "GreaterThan", 100, "x=1")]})
    cluster.step([closed], {"heat": {"b": 1, "c": 1}})
    assert not cluster.ours("a")


@pytest.mark.parametrize("strategy", ["deschedule", "labeling"])
def test_a_label_that_stands_stays_on_a_silent_node_when_the_policy_fails_closed(strategy: str) -> None:
    cluster = Cluster("a", "b", "c")
    closed = policy(fail="closed", **{strategy: [rule("heat", "GreaterThan", 100, "x=1")]})
    cluster.step([closed], {"heat": {"a": 101, "b": 1, "c": 1}})
    cluster.step([closed], {"heat": {"b": 1, "c": 1}})
    assert cluster.ours("a")


def test_values_too_old_count_as_none() -> None:
    cluster = Cluster("a")
    made = cluster.step([HOT], {"heat": {"a": 101}}, read_at=900.0)
    assert made.stopped == ("policy ns/p: 0 of 1 nodes have a current heat",)


def test_a_patch_passes_on_the_version_that_it_was_made_for() -> None:
    made = plan([NodeView("a", resource_version="7")], known([HOT], {"heat": {"a": 101}}, 1.0), Memory(), Limits())
    assert json.loads(made.patches[0].body()) == {
        "metadata": {
            "labels": {"p": "violating"},
            "annotations": {ANNOTATION: '{"p":"ns/p"}'},
            "resourceVersion": "7",
        }
    }


# Whatever the policies and the metrics.

NODES = ("a", "b", "c")
operators = st.sampled_from(["Equals", "LessThan", "GreaterThan"])
rules = st.builds(
    rule,
    st.sampled_from(["m", "n"]),
    operators,
    st.integers(-2, 2),
    st.sampled_from(["x=1", "x=2", "y=1", "bad", "=="]),
)
strategies = st.fixed_dictionaries(
    {"rules": st.lists(rules, max_size=3), "logicalOperator": st.sampled_from(["anyOf", "allOf"])}
)
policies = st.lists(
    st.builds(
        policy,
        st.sampled_from(["p", "q"]),
        st.sampled_from(["one", "two"]),
        st.sampled_from(["open", "closed"]),
        deschedule=strategies,
        labeling=strategies,
    ),
    max_size=3,
    unique_by=lambda each: each.key,
)
metrics = st.fixed_dictionaries({m: st.dictionaries(st.sampled_from(NODES), st.integers(-3, 3)) for m in ("m", "n")})
limits = st.sampled_from([FREE, Limits(), Limits(hold_seconds=0), Limits(leave_ratio=1.0)])


@settings(deadline=None)
@given(st.lists(st.tuples(policies, metrics, st.sampled_from([0.0, 1.0, 61.0, 3700.0])), max_size=5), limits)
def test_after_a_plan_is_applied_there_is_nothing_left_to_plan(rounds: list[Any], chosen: Limits) -> None:
    cluster = Cluster(*NODES, limits=chosen)
    for given_policies, given_metrics, after in rounds:
        cluster.step(given_policies, given_metrics, after=after)
        assert cluster.step(given_policies, given_metrics, after=0.0).patches == ()


@settings(deadline=None)
@given(st.lists(st.tuples(policies, metrics), max_size=5), limits)
def test_without_policies_every_node_is_as_it_was(rounds: list[Any], chosen: Limits) -> None:
    cluster = Cluster(*NODES, limits=chosen)
    before = dict(cluster.nodes)
    for given_policies, given_metrics in rounds:
        cluster.step(given_policies, given_metrics)
    cluster.step([], {}, after=0.0)
    assert cluster.nodes == before


@settings(deadline=None)
@given(policies, metrics, st.lists(st.tuples(policies, metrics), max_size=4))
def test_the_labels_are_those_of_the_last_policies_whatever_was_before(
    last: list[TasPolicy], values: Metrics, rounds: list[Any]
) -> None:
    """Without hysteresis and with all metrics known, so that no history may matter."""
    full = {m: {node: values[m].get(node, 0) for node in NODES} for m in ("m", "n")}
    unique = list({each.name: each for each in last}.values())
    free = Limits(1.0, 1e9, 0.0, 1.0, 10**6)
    fresh, used = Cluster(*NODES, limits=free), Cluster(*NODES, limits=free)
    for given_policies, _ in rounds:
        used.step(given_policies, full)
    for cluster in (fresh, used):
        for _ in range(10):
            cluster.step(unique, full)
    assert [fresh.ours(node) for node in NODES] == [used.ours(node) for node in NODES]
