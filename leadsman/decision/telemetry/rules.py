"""Evaluates rules, which are strict, and strategies on nodes' values.

A node without a current value violates nothing, unless the policy fails closed (FailMode.CLOSED).
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from operator import eq, gt, lt

from leadsman.decision.telemetry.model import Readings
from leadsman.decision.telemetry.taspolicy import LogicalOperator, Operator, Rule, Strategy
from leadsman.kube.quantity import NANO

COMPARE: Mapping[Operator, Callable[[int, int], bool]] = {
    Operator.EQUALS: eq,
    Operator.LESS_THAN: lt,
    Operator.GREATER_THAN: gt,
}


def violates(value: int, rule: Rule) -> bool:
    """Whether the value, in nanos, violates the rule."""
    return COMPARE[rule.operator](value, rule.target * NANO)


def still_violates(value: int, rule: Rule, leave_ratio: float) -> bool:
    """Whether a present violation continues: until the value has come back by 1 - leave_ratio of the target.

    GreaterThan 100 at 0.8 continues until the value is 80 or less, LessThan 100 until it is 120 or more, and below zero
    likewise: GreaterThan -100 until -120. Equals has no margin: it ends with any other value.
    """
    target, margin = rule.target * NANO, _margin(rule.target, leave_ratio)
    if rule.operator is Operator.GREATER_THAN:
        return value > target - margin
    if rule.operator is Operator.LESS_THAN:
        return value < target + margin
    return value == target


@lru_cache(maxsize=1024)
def _margin(target: int, leave_ratio: float) -> int:
    return int(abs(target) * NANO * (1 - Fraction(str(leave_ratio))))


def violating_nodes(rule: Rule, readings: Readings) -> set[str]:
    """The nodes whose value violates the rule. Inlined: a call for each of 5,000 nodes costs twice as much."""
    target, values = rule.target * NANO, readings.values.items()
    if rule.operator is Operator.GREATER_THAN:
        return {node for node, value in values if value > target}
    if rule.operator is Operator.LESS_THAN:
        return {node for node, value in values if value < target}
    return {node for node, value in values if value == target}


def violations_by_node(strategy: Strategy, readings: Sequence[Readings]) -> dict[str, Rule | None]:
    """Node → the first rule that it violates; None: it violates all of them (allOf). readings: of each rule."""
    by_rule = [violating_nodes(rule, column) for rule, column in zip(strategy.rules, readings, strict=True)]
    if strategy.logic is LogicalOperator.ALL_OF:
        return dict.fromkeys(set.intersection(*by_rule) if by_rule else (), None)
    nodes: dict[str, Rule | None] = {}
    for rule, violators in zip(reversed(strategy.rules), reversed(by_rule), strict=True):
        nodes.update(dict.fromkeys(violators, rule))
    return nodes


def strategy_violated(strategy: Strategy, states: Sequence[bool | None], unknown: bool) -> bool:
    """Whether a node violates the strategy. states: of each rule; None (no value) counts as `unknown`."""
    counted = [unknown if state is None else state for state in states]
    return bool(counted) and (all(counted) if strategy.logic is LogicalOperator.ALL_OF else any(counted))
