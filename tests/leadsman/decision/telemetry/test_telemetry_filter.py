"""dontschedule as a filter: strict, in the pod's namespace, in words that kube-scheduler can count."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs

from leadsman.decision.decide import decide
from leadsman.decision.inputs import DecisionInputs, PolledMetrics, SnapshotMetrics, TelemetryInputs
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry import telemetry_plugins
from leadsman.decision.telemetry.taspolicy import Operator, Rule, Strategy
from leadsman.kube import quantity
from leadsman.kube.quantity import NANO
from leadsman.state.records import Hardware, Heartbeat
from leadsman.state.snapshot import NodeState, Snapshot
from tests.leadsman.decision.telemetry import tas

NODES = ("a", "b", "c")


def refused(facts: Any, pod: Any, nodes: Any = NODES) -> Mapping[str, str]:
    found = telemetry_plugins.TelemetryFilter().refusals(pod, nodes, facts)
    assert {refusal.plugin for refusal in found.values()} <= {"dontschedule"}
    return {node: refusal.reason for node, refusal in found.items()}


def test_a_node_that_violates_is_refused_and_policy_and_rule_are_named() -> None:
    facts = tas.facts([tas.policy(dontschedule=[tas.rule("heat", "GreaterThan", 80)])], {"heat": {"a": 81, "b": 80}})
    assert refused(facts, tas.pod()) == {"a": "telemetry policy ns/p is violated: heat GreaterThan 80"}


@pytest.mark.parametrize("metrics", [{}, {"heat": {}}, {"heat": {"elsewhere": 99}}])
def test_an_absent_metric_refuses_nothing(metrics: Any) -> None:
    facts = tas.facts([tas.policy(dontschedule=[tas.rule("heat", "GreaterThan", 80)])], metrics)
    assert refused(facts, tas.pod()) == {}


def test_the_policy_is_that_of_the_pod_s_namespace() -> None:
    hot, cold = (
        tas.policy("p", n, dontschedule=[tas.rule("heat", o, 80)]) for n, o in (("x", "GreaterThan"), ("y", "LessThan"))
    )
    facts = tas.facts([hot, cold], {"heat": {"a": 81, "b": 79}})
    assert set(refused(facts, tas.pod(namespace="x"))) == {"a"}
    assert set(refused(facts, tas.pod(namespace="y"))) == {"b"}
    assert refused(facts, tas.pod(namespace="z")) == {}


def test_a_missing_policy_is_neutral_and_can_be_counted() -> None:
    """The original answered 404."""
    facts = tas.facts([], {})
    decision = decide(tas.pod(), NODES, facts)
    assert (decision.kept, set(decision.scores.values())) == (NODES, {5})
    assert telemetry_plugins.is_policy_missing(tas.pod(), facts)
    assert not telemetry_plugins.is_policy_missing(tas.pod(""), facts)
    assert not telemetry_plugins.is_policy_missing(tas.pod(), tas.facts([tas.policy()]))


@pytest.mark.parametrize(
    ("logic", "metrics", "expected"),
    [
        ("anyOf", {"m": {"a": 0, "b": 0}, "n": {"a": 0}}, {"b": "n", "c": "m"}),
        ("anyOf", {"m": {"a": 2}, "n": {"a": 0, "b": 0, "c": 0}}, {"a": "GreaterThan", "b": "m", "c": "m"}),
        ("allOf", {"m": {"a": 0, "b": 2}, "n": {"c": 0}}, {"b": "n"}),
    ],
)
def test_fail_closed_refuses_where_what_is_missing_may_be_the_violation(
    logic: str, metrics: Any, expected: dict[str, str]
) -> None:
    rules = [tas.rule("m", "GreaterThan", 1), tas.rule("n", "GreaterThan", 1)]
    policy = tas.policy(metrics={"failMode": "closed"}, dontschedule={"rules": rules, "logicalOperator": logic})
    found = refused(tas.facts([policy], metrics), tas.pod())
    assert set(found) == set(expected)
    for node, word in expected.items():
        assert word in found[node]


def test_only_a_closed_dontschedule_holds_a_pod_when_nothing_can_be_decided() -> None:
    rules = [tas.rule("m", "GreaterThan", 1)]
    closed = tas.policy(metrics={"failMode": "closed"}, dontschedule=rules)
    assert telemetry_plugins.fails_closed(tas.pod(), tas.facts([closed]))
    assert not telemetry_plugins.fails_closed(tas.pod(), tas.facts([tas.policy(dontschedule=rules)]))
    scored = tas.policy(metrics={"failMode": "closed"}, scheduleonmetric=rules)
    assert not telemetry_plugins.fails_closed(tas.pod(), tas.facts([scored]))


# Rules are strict, on exact quantities; a missing value violates nothing.


def dontschedule(rules: Any) -> Strategy:
    strategy = tas.policy(dontschedule=rules).dontschedule
    assert strategy is not None
    return strategy


@pytest.mark.parametrize(
    ("value", "operator", "target", "violated"),
    [
        ("11", "GreaterThan", 10, True),
        ("10", "GreaterThan", 10, False),
        ("10000000001n", "GreaterThan", 10, True),
        ("1Ki", "GreaterThan", 1024, False),
        ("10", "LessThan", 10, False),
        ("-1", "LessThan", 0, True),
        ("10001m", "Equals", 10, False),
        ("-1", "Equals", -1, True),
        ("9007199254740993", "Equals", 2**53, False),
        ("9223372036854775807", "Equals", 2**63 - 1, True),
    ],
)
def test_each_operator(value: str, operator: str, target: int, violated: bool) -> None:
    rule = Rule("m", Operator(operator), target)
    assert telemetry_plugins.violates(quantity.parse(value), rule) is violated
    assert telemetry_plugins.violating_nodes(rule, tas.column({"a": value})) == ({"a"} if violated else set())


@pytest.mark.parametrize(("logic", "violators"), [("anyOf", {"both", "one", "half"}), ("allOf", {"both"})])
def test_logical_operators_and_nodes_without_a_value(logic: str, violators: set[str]) -> None:
    rules = [tas.rule("m", "GreaterThan", 1), tas.rule("n", "GreaterThan", 1)]
    strategy = dontschedule({"rules": rules, "logicalOperator": logic})
    columns = [tas.column({"both": 2, "one": 2, "none": 1, "half": 2}), tas.column({"both": 2, "one": 1, "none": 1})]
    assert set(telemetry_plugins.violations_by_node(strategy, columns)) == violators


def test_a_node_that_violates_several_is_told_the_first() -> None:
    strategy = dontschedule([tas.rule("m", "GreaterThan", 1), tas.rule("n", "GreaterThan", 1)])
    found = telemetry_plugins.violations_by_node(strategy, [tas.column({"a": 2, "b": 0}), tas.column({"a": 2, "b": 2})])
    assert {node: rule and rule.metric for node, rule in found.items()} == {"a": "m", "b": "n"}


# A metric's current values: from one table, young enough, never of a node that is not fresh.


def node(changed_at: float | None = 99.0, **values: float) -> NodeState:
    return NodeState(None, Heartbeat(1, 1, 5.0), None, Hardware(values), changed_at=changed_at)


def known(
    tables: tuple[PolledMetrics | SnapshotMetrics, ...], now: float = 100.0, **nodes: NodeState
) -> DecisionInputs:
    return DecisionInputs(Snapshot(nodes), Policy(), now, telemetry=TelemetryInputs(tables=tables))


def test_agents_metrics_count_while_the_node_is_fresh() -> None:
    facts = known(
        (SnapshotMetrics(),), a=node(load=0.5), b=node(80.0, load=1.0), c=node(None, load=1.0), d=node(other=1.0)
    )
    assert telemetry_plugins.current_readings("load", tas.policy(), facts).values == {"a": quantity.parse("500m")}


def test_polled_values_age_out_one_by_one() -> None:
    column = tas.column({"a": 1, "b": 2}, read_at=80.0)
    column = structs.replace(column, read_at={"a": 80.0, "b": 90.0})
    facts = known((PolledMetrics({"m": column}),))
    assert telemetry_plugins.current_readings("m", tas.policy(), facts).values == {"b": 2 * NANO}
    assert telemetry_plugins.reporting_nodes("m", facts) == {"a", "b"}
    patient = tas.policy(metrics={"maxAgeSeconds": 30})
    assert set(telemetry_plugins.current_readings("m", patient, facts).values) == {"a", "b"}


def test_the_first_table_with_a_current_value_counts_alone() -> None:
    polled, a = PolledMetrics({"load": tas.column({"b": 7}, read_at=100.0)}), node(load=1.0)
    for tables, nodes in (((polled, SnapshotMetrics()), {"b"}), ((SnapshotMetrics(), polled), {"a"})):
        assert set(telemetry_plugins.current_readings("load", tas.policy(), known(tables, a=a)).values) == nodes
