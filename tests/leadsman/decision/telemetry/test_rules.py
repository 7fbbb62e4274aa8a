"""Rules are strict, on exact quantities; a missing value violates nothing."""

from typing import Any

import pytest

from leadsman.decision.telemetry.taspolicy import Operator, Rule, Strategy
from leadsman.decision.telemetry.telemetry_plugins import (
    violates,
    violating_nodes,
    violations_by_node,
)
from leadsman.kube import quantity
from tests.leadsman.decision.telemetry.conftest import Tas


def dontschedule(tas: Tas, rules: Any) -> Strategy:
    strategy = tas.policy(dontschedule=rules).dontschedule
    assert strategy is not None
    return strategy


@pytest.mark.parametrize(
    ("value", "operator", "target", "violated"),
    [
        ("11", "GreaterThan", 10, True),
        ("10", "GreaterThan", 10, False),
        ("9", "GreaterThan", 10, False),
        ("1500m", "GreaterThan", 1, True),
        ("10000000001n", "GreaterThan", 10, True),
        ("1Ki", "GreaterThan", 1023, True),
        ("1Ki", "GreaterThan", 1024, False),
        ("9", "LessThan", 10, True),
        ("10", "LessThan", 10, False),
        ("9999m", "LessThan", 10, True),
        ("-1", "LessThan", 0, True),
        ("10", "Equals", 10, True),
        ("10000m", "Equals", 10, True),
        ("10001m", "Equals", 10, False),
        ("-1", "Equals", -1, True),
        ("9007199254740993", "Equals", 2**53, False),
        ("9223372036854775807", "Equals", 2**63 - 1, True),
    ],
)
def test_each_operator(tas: Tas, value: str, operator: str, target: int, violated: bool) -> None:
    rule = Rule("m", Operator(operator), target)
    assert violates(quantity.parse(value), rule) is violated
    assert violating_nodes(rule, tas.column({"a": value})) == ({"a"} if violated else set())


@pytest.mark.parametrize(("logic", "violators"), [("anyOf", {"both", "one", "half"}), ("allOf", {"both"})])
def test_logical_operators_and_nodes_without_a_value(tas: Tas, logic: str, violators: set[str]) -> None:
    rules = [tas.rule("m", "GreaterThan", 1), tas.rule("n", "GreaterThan", 1)]
    strategy = dontschedule(tas, {"rules": rules, "logicalOperator": logic})
    columns = [tas.column({"both": 2, "one": 2, "none": 1, "half": 2}), tas.column({"both": 2, "one": 1, "none": 1})]
    assert set(violations_by_node(strategy, columns)) == violators


def test_a_node_that_violates_several_is_told_the_first(tas: Tas) -> None:
    strategy = dontschedule(tas, [tas.rule("m", "GreaterThan", 1), tas.rule("n", "GreaterThan", 1)])
    found = violations_by_node(strategy, [tas.column({"a": 2, "b": 0}), tas.column({"a": 2, "b": 2})])
    assert {node: rule and rule.metric for node, rule in found.items()} == {"a": "m", "b": "n"}
