"""Computes which labels each policy asks for on which nodes."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from leadsman.decision.inputs import DecisionInputs, Readings
from leadsman.decision.telemetry import telemetry_plugins
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
from leadsman.kube.quantity import format_quantity
from leadsman.planning.labels.label_plan import label_key, mark_key

CurrentLabels = Mapping[str, Mapping[str, str]]
"""Maps node → label key → value, of the labels that one policy owns."""


class DesiredValue(Struct, frozen=True):
    """The value that a policy asks for on one node, and why."""

    policy: PolicyKey
    value: str
    reason: str


class DesiredLabel(Struct, frozen=True):
    """One label key of one policy.

    possible_values: those that its rules can write.
    by_node: node → the value that the policy asks for there.
    stopped: why too little is known to change the label; "" when enough is.
    """

    policy: PolicyKey
    possible_values: frozenset[str]
    by_node: Mapping[str, DesiredValue]
    stopped: str = ""


class DesiredLabelInputs(Struct, frozen=True):
    """Says what the labels of every policy are computed from.

    nodes: all of the cluster.
    reporters: metric → the nodes that report it, or did within the hour.
    leave_ratio, min_fresh_ratio: as in LabelLimits.
    """

    nodes: Sequence[str]
    inputs: DecisionInputs
    reporters: Mapping[str, frozenset[str]]
    leave_ratio: float
    min_fresh_ratio: float


def find_desired_labels(
    policy: TasPolicy, current: CurrentLabels, label_inputs: DesiredLabelInputs
) -> dict[str, DesiredLabel]:
    """Maps each label key to what the policy asks for. current: its labels on the nodes, which hysteresis may keep."""
    return {**_desired_marks(policy, current, label_inputs), **_desired_node_labels(policy, current, label_inputs)}


def _desired_marks(
    policy: TasPolicy, current: CurrentLabels, label_inputs: DesiredLabelInputs
) -> dict[str, DesiredLabel]:
    strategy = policy.deschedule
    if strategy is None or not strategy.rules:
        return {}
    key, columns = mark_key(policy.key), telemetry_plugins.for_rules(strategy.rules, policy, label_inputs.inputs)
    stopped = _stop_reason(strategy, columns, policy, label_inputs)
    by_node = {} if stopped else dict(_violating_nodes(policy, strategy, columns, current, label_inputs))
    return {key: DesiredLabel(policy.key, frozenset([VIOLATING]), by_node, stopped)}


def _violating_nodes(
    policy: TasPolicy,
    strategy: Strategy,
    columns: Sequence[Readings],
    current: CurrentLabels,
    label_inputs: DesiredLabelInputs,
) -> Iterator[tuple[str, DesiredValue]]:
    key, closed = mark_key(policy.key), policy.fail_mode is FailMode.CLOSED
    for node in label_inputs.nodes:
        marked = key in current.get(node, {})
        values = [column.values.get(node) for column in columns]
        states = [
            _is_violated(value, rule, marked, label_inputs) for value, rule in zip(values, strategy.rules, strict=True)
        ]
        if telemetry_plugins.strategy_violated(strategy, states, unknown=marked and closed):
            checked = zip(strategy.rules, values, states, strict=True)
            reasons = [_reason(rule, value) for rule, value, state in checked if state is not False]
            yield node, DesiredValue(policy.key, VIOLATING, "; ".join(reasons))


def _desired_node_labels(
    policy: TasPolicy, current: CurrentLabels, label_inputs: DesiredLabelInputs
) -> dict[str, DesiredLabel]:
    strategy = policy.labeling
    if strategy is None or not any(rule.labels for rule in strategy.rules):
        return {}
    columns = telemetry_plugins.for_rules(strategy.rules, policy, label_inputs.inputs)
    stopped = _stop_reason(strategy, columns, policy, label_inputs)
    by_key: dict[str, dict[str, DesiredValue]] = {}
    for node in () if stopped else label_inputs.nodes:
        for key, desired in _node_labels(node, policy, strategy, columns, current.get(node, {}), label_inputs):
            by_key.setdefault(key, {})[node] = desired
    values: dict[str, set[str]] = {}
    for label in (label for rule in strategy.rules for label in rule.labels):
        values.setdefault(label_key(policy.key, label.key), set()).add(label.value)
    return {key: DesiredLabel(policy.key, frozenset(of), by_key.get(key, {}), stopped) for key, of in values.items()}


def _node_labels(
    node: str,
    policy: TasPolicy,
    strategy: Strategy,
    columns: Sequence[Readings],
    current: Mapping[str, str],
    label_inputs: DesiredLabelInputs,
) -> Iterator[tuple[str, DesiredValue]]:
    violated = []
    for rule, column in zip(strategy.rules, columns, strict=True):
        was_violated = _was_violated(rule, strategy, policy, current)
        value = column.values.get(node)
        state = _is_violated(value, rule, was_violated, label_inputs)
        if state or (state is None and was_violated and policy.fail_mode is FailMode.CLOSED):
            violated.append((rule, value))
    if strategy.logic is LogicalOperator.ALL_OF and len(violated) < len(strategy.rules):
        return
    for key, (label, rule, value) in _winners(violated).items():
        yield label_key(policy.key, key), DesiredValue(policy.key, label.value, _reason(rule, value))


def _was_violated(rule: Rule, strategy: Strategy, policy: TasPolicy, current: Mapping[str, str]) -> bool:
    """Tells whether the rule is violated as the node's labels show: then hysteresis may keep them, and add none.

    With anyOf, when the node has all labels of the rule; with allOf, where rules are violated together, when it has
    all keys of the strategy.
    """
    if strategy.logic is LogicalOperator.ALL_OF:
        return all(label_key(policy.key, label.key) in current for each in strategy.rules for label in each.labels)
    return bool(rule.labels) and all(current.get(label_key(policy.key, key)) == value for key, value in rule.labels)


_Violated = tuple[Rule, int | None]


def _winners(violated: Sequence[_Violated]) -> dict[str, tuple[RuleLabel, Rule, int | None]]:
    """Maps each label key to the label that wins it. The operator of the first violated rule says how the others
    compare."""
    winners: dict[str, tuple[RuleLabel, Rule, int | None]] = {}
    for rule, value in violated:
        for label in rule.labels:
            before = winners.get(label.key)
            if before is None or _wins_over(rule, value, before[1], before[2]):
                winners[label.key] = (label, rule, value)
    return winners


def _wins_over(rule: Rule, value: int | None, before: Rule, value_before: int | None) -> bool:
    """Tells whether the value wins over the one before: a larger for GreaterThan, a smaller for LessThan; else none."""
    if rule.operator is not before.operator or value is None:
        return False
    if value_before is None:
        return True
    if rule.operator is Operator.GREATER_THAN:
        return value > value_before
    return rule.operator is Operator.LESS_THAN and value < value_before


def _is_violated(value: int | None, rule: Rule, was_violated: bool, label_inputs: DesiredLabelInputs) -> bool | None:
    if value is None:
        return None
    return (
        telemetry_plugins.still_violates(value, rule, label_inputs.leave_ratio)
        if was_violated
        else telemetry_plugins.violates(value, rule)
    )


def _reason(rule: Rule, value: int | None) -> str:
    return (
        f"{rule}: the value is {format_quantity(value)}"
        if value is not None
        else f"{rule}: no current value, so the label stays"
    )


def _stop_reason(
    strategy: Strategy, columns: Sequence[Readings], policy: TasPolicy, label_inputs: DesiredLabelInputs
) -> str:
    """Says why the strategy changes nothing. A metric that no node ever reported is left out, unless there is no
    other."""
    by_metric, any_reported = {rule.metric: column for rule, column in zip(strategy.rules, columns, strict=True)}, False
    for metric, column in by_metric.items():
        expected = label_inputs.reporters.get(metric, frozenset())
        any_reported = any_reported or bool(expected)
        fresh = len(expected & column.values.keys())
        if fresh < label_inputs.min_fresh_ratio * len(expected):
            return (
                f"policy {policy.key}: only {fresh} of {len(expected)} nodes have a current {metric}; its labels stay"
            )
    return "" if any_reported else f"policy {policy.key}: no node reports {', '.join(sorted(by_metric))}"
