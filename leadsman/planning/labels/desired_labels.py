"""Which labels each policy wants on which nodes."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.telemetry import readings, rules
from leadsman.decision.telemetry.model import Readings
from leadsman.decision.telemetry.quantity import format_quantity
from leadsman.decision.telemetry.taspolicy import (
    VIOLATING,
    FailMode,
    LogicalOperator,
    Operator,
    PolicyKey,
    Rule,
    RuleLabel,
    Strategy,
    TasPolicy,
)
from leadsman.planning.labels.ownership import label_key, mark_key

CurrentLabels = Mapping[str, Mapping[str, str]]
"""Node → label key → value, of the labels that one policy owns."""


class DesiredValue(Struct, frozen=True):
    """What a policy wants a label to be on one node, and why."""

    policy: PolicyKey
    value: str
    reason: str


class DesiredLabel(Struct, frozen=True):
    """One label key of one policy. values: those that its rules can write. claims: node → the one that it wants there.

    stopped: why nothing is known well enough to change anything; "" when it is.
    """

    policy: PolicyKey
    possible_values: frozenset[str]
    by_node: Mapping[str, DesiredValue]
    stopped: str = ""


class DesiredLabelInputs(Struct, frozen=True):
    """reported: metric → the nodes that are known to report it."""

    nodes: Sequence[str]
    inputs: DecisionInputs
    reporters: Mapping[str, frozenset[str]]
    leave_ratio: float
    min_fresh_ratio: float


def find_desired_labels(policy: TasPolicy, stands: CurrentLabels, asked: DesiredLabelInputs) -> dict[str, DesiredLabel]:
    """Label key → what the policy wants. stands: its labels that hysteresis keeps standing."""
    return {**_desired_marks(policy, stands, asked), **_desired_node_labels(policy, stands, asked)}


def _desired_marks(policy: TasPolicy, stands: CurrentLabels, asked: DesiredLabelInputs) -> dict[str, DesiredLabel]:
    strategy = policy.deschedule
    if strategy is None or not strategy.rules:
        return {}
    key, columns = mark_key(policy.key), readings.for_rules(strategy.rules, policy, asked.inputs)
    stopped = _stop_reason(strategy, columns, policy, asked)
    claims = {} if stopped else dict(_violating_nodes(policy, strategy, columns, stands, asked))
    return {key: DesiredLabel(policy.key, frozenset([VIOLATING]), claims, stopped)}


def _violating_nodes(
    policy: TasPolicy, strategy: Strategy, columns: Sequence[Readings], stands: CurrentLabels, asked: DesiredLabelInputs
) -> Iterator[tuple[str, DesiredValue]]:
    key, closed = mark_key(policy.key), policy.fail_mode is FailMode.CLOSED
    for node in asked.nodes:
        marked = key in stands.get(node, {})
        values = [column.values.get(node) for column in columns]
        states = [_is_violated(value, rule, marked, asked) for value, rule in zip(values, strategy.rules, strict=True)]
        if rules.strategy_violated(strategy, states, unknown=marked and closed):
            told = zip(strategy.rules, values, states, strict=True)
            reasons = [_reason(rule, value) for rule, value, state in told if state is not False]
            yield node, DesiredValue(policy.key, VIOLATING, "; ".join(reasons))


def _desired_node_labels(
    policy: TasPolicy, stands: CurrentLabels, asked: DesiredLabelInputs
) -> dict[str, DesiredLabel]:
    strategy = policy.labeling
    if strategy is None or not any(rule.labels for rule in strategy.rules):
        return {}
    columns = readings.for_rules(strategy.rules, policy, asked.inputs)
    stopped = _stop_reason(strategy, columns, policy, asked)
    claims: dict[str, dict[str, DesiredValue]] = {}
    for node in () if stopped else asked.nodes:
        for key, claim in _node_labels(node, policy, strategy, columns, stands.get(node, {}), asked):
            claims.setdefault(key, {})[node] = claim
    values: dict[str, set[str]] = {}
    for label in (label for rule in strategy.rules for label in rule.labels):
        values.setdefault(label_key(policy.key, label.key), set()).add(label.value)
    return {key: DesiredLabel(policy.key, frozenset(of), claims.get(key, {}), stopped) for key, of in values.items()}


def _node_labels(
    node: str,
    policy: TasPolicy,
    strategy: Strategy,
    columns: Sequence[Readings],
    stand: Mapping[str, str],
    asked: DesiredLabelInputs,
) -> Iterator[tuple[str, DesiredValue]]:
    violated = []
    for rule, column in zip(strategy.rules, columns, strict=True):
        stood = _was_violated(rule, strategy, policy, stand)
        value = column.values.get(node)
        state = _is_violated(value, rule, stood, asked)
        if state or (state is None and stood and policy.fail_mode is FailMode.CLOSED):
            violated.append((rule, value))
    if strategy.logic is LogicalOperator.ALL_OF and len(violated) < len(strategy.rules):
        return
    for key, (label, rule, value) in _winners(violated).items():
        yield label_key(policy.key, key), DesiredValue(policy.key, label.value, _reason(rule, value))


def _was_violated(rule: Rule, strategy: Strategy, policy: TasPolicy, stand: Mapping[str, str]) -> bool:
    """Whether the rule's violation stands: then hysteresis keeps what is there, and can add nothing.

    Of anyOf, when all of its labels do; of allOf, where rules are violated together, when all keys of the strategy do.
    """
    if strategy.logic is LogicalOperator.ALL_OF:
        return all(label_key(policy.key, label.key) in stand for each in strategy.rules for label in each.labels)
    return bool(rule.labels) and all(stand.get(label_key(policy.key, key)) == value for key, value in rule.labels)


_Violated = tuple[Rule, int | None]


def _winners(violated: Sequence[_Violated]) -> dict[str, tuple[RuleLabel, Rule, int | None]]:
    """Label key → the label that keeps it. The operator of the first violated rule says how the others compare."""
    kept: dict[str, tuple[RuleLabel, Rule, int | None]] = {}
    for rule, value in violated:
        for label in rule.labels:
            before = kept.get(label.key)
            if before is None or _wins_over(rule, value, before[1], before[2]):
                kept[label.key] = (label, rule, value)
    return kept


def _wins_over(rule: Rule, value: int | None, before: Rule, value_before: int | None) -> bool:
    """Largest for GreaterThan, smallest for LessThan; else, and in a tie, the first."""
    if rule.operator is not before.operator or value is None:
        return False
    if value_before is None:
        return True
    if rule.operator is Operator.GREATER_THAN:
        return value > value_before
    return rule.operator is Operator.LESS_THAN and value < value_before


def _is_violated(value: int | None, rule: Rule, stands: bool, asked: DesiredLabelInputs) -> bool | None:
    if value is None:
        return None
    return rules.still_violates(value, rule, asked.leave_ratio) if stands else rules.violates(value, rule)


def _reason(rule: Rule, value: int | None) -> str:
    return f"{rule}: it is {format_quantity(value)}" if value is not None else f"{rule}: no current value, so it stays"


def _stop_reason(strategy: Strategy, columns: Sequence[Readings], policy: TasPolicy, asked: DesiredLabelInputs) -> str:
    """A metric that no node ever reported is left out, unless there is no other."""
    names, heard = {rule.metric: column for rule, column in zip(strategy.rules, columns, strict=True)}, False
    for metric, column in names.items():
        expected = asked.reporters.get(metric, frozenset())
        heard = heard or bool(expected)
        fresh = len(expected & column.values.keys())
        if fresh < asked.min_fresh_ratio * len(expected):
            return f"policy {policy.key}: {fresh} of {len(expected)} nodes have a current {metric}"
    return "" if heard else f"policy {policy.key}: no node reports {', '.join(sorted(names))}"
