"""Computes which labels each policy asks for on which nodes."""

from collections.abc import Mapping, Sequence

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
from leadsman.planning.labels.label_plan import LabelLimits, label_key, mark_key

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


_Violated = tuple[Rule, int | None]


class LabelWishes:
    """Computes which labels policies ask for.

    nodes: all of the cluster.
    reporters: metric → the nodes that report it, or did within the hour.
    is_new: the planner has run for less than that, and a metric without reporters may have fallen silent before.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        inputs: DecisionInputs,
        reporters: Mapping[str, frozenset[str]],
        limits: LabelLimits,
        is_new: bool,
    ) -> None:
        self._nodes, self._inputs, self._reporters, self._limits = nodes, inputs, reporters, limits
        self._is_new = is_new

    def of(self, policy: TasPolicy, current: CurrentLabels) -> dict[str, DesiredLabel]:
        """Maps each label key to what the policy asks for. current: its labels on the nodes, which hysteresis may
        keep."""
        return {**self._marks(policy, current), **self._node_labels(policy, current)}

    def _marks(self, policy: TasPolicy, current: CurrentLabels) -> dict[str, DesiredLabel]:
        strategy = policy.deschedule
        if strategy is None or not strategy.rules:
            return {}
        key, closed, by_node = mark_key(policy.key), policy.fail_mode is FailMode.CLOSED, dict[str, DesiredValue]()
        columns, stopped = self._columns(strategy, policy)
        for node in () if stopped else self._nodes:
            marked = key in current.get(node, {})
            values = [column.values.get(node) for column in columns]
            states = [self._is_violated(each, rule, marked) for each, rule in zip(values, strategy.rules, strict=True)]
            if telemetry_plugins.strategy_violated(strategy, states, unknown=marked and closed):
                checked = zip(strategy.rules, values, states, strict=True)
                reasons = [_reason(rule, value) for rule, value, state in checked if state is not False]
                by_node[node] = DesiredValue(policy.key, VIOLATING, "; ".join(reasons))
        return {key: DesiredLabel(policy.key, frozenset([VIOLATING]), by_node, stopped)}

    def _node_labels(self, policy: TasPolicy, current: CurrentLabels) -> dict[str, DesiredLabel]:
        strategy = policy.labeling
        if strategy is None or not any(rule.labels for rule in strategy.rules):
            return {}
        columns, stopped = self._columns(strategy, policy)
        by_key: dict[str, dict[str, DesiredValue]] = {}
        for node in () if stopped else self._nodes:
            values = [column.values.get(node) for column in columns]
            violated = self._violated(values, policy, strategy, current.get(node, {}))
            for key, (label, rule, value) in _winners(violated).items():
                desired = DesiredValue(policy.key, label.value, _reason(rule, value))
                by_key.setdefault(label_key(policy.key, key), {})[node] = desired
        possible: dict[str, set[str]] = {}
        for label in (label for rule in strategy.rules for label in rule.labels):
            possible.setdefault(label_key(policy.key, label.key), set()).add(label.value)
        return {
            key: DesiredLabel(policy.key, frozenset(of), by_key.get(key, {}), stopped) for key, of in possible.items()
        }

    def _violated(
        self, values: Sequence[int | None], policy: TasPolicy, strategy: Strategy, current: Mapping[str, str]
    ) -> Sequence[_Violated]:
        """Returns the rules of a labeling strategy that are violated on a node; with allOf all or none of them."""
        violated = []
        for rule, value in zip(strategy.rules, values, strict=True):
            was_violated = _was_violated(rule, strategy, policy, current)
            state = self._is_violated(value, rule, was_violated)
            if state or (state is None and was_violated and policy.fail_mode is FailMode.CLOSED):
                violated.append((rule, value))
        every = strategy.logic is LogicalOperator.ALL_OF and len(violated) < len(strategy.rules)
        return [] if every else violated

    def _is_violated(self, value: int | None, rule: Rule, was_violated: bool) -> bool | None:
        if value is None:
            return True if was_violated and self._is_new and not self._reporters.get(rule.metric) else None
        if was_violated:
            return telemetry_plugins.still_violates(value, rule, self._limits.leave_ratio)
        return telemetry_plugins.violates(value, rule)

    def _columns(self, strategy: Strategy, policy: TasPolicy) -> tuple[Sequence[Readings], str]:
        """Returns what each rule's metric reads, and why the strategy changes nothing; "": it may. A metric that no
        node ever reported is left out, unless there is no other."""
        columns, any_reported = telemetry_plugins.for_rules(strategy.rules, policy, self._inputs), False
        by_metric = {rule.metric: column for rule, column in zip(strategy.rules, columns, strict=True)}
        for metric, column in by_metric.items():
            expected = self._reporters.get(metric, frozenset())
            any_reported = any_reported or bool(expected)
            fresh = len(expected & column.values.keys())
            if fresh < self._limits.min_fresh_ratio * len(expected):
                have = f"only {fresh} of {len(expected)} nodes have a current {metric}"
                return columns, f"policy {policy.key}: {have}; its labels stay"
        if any_reported:
            return columns, ""
        return columns, f"policy {policy.key}: no node reports {', '.join(sorted(by_metric))}"


def _was_violated(rule: Rule, strategy: Strategy, policy: TasPolicy, current: Mapping[str, str]) -> bool:
    """Tells whether the rule is violated as the node's labels show: then hysteresis may keep them, and add none.

    With anyOf, when the node has all labels of the rule; with allOf, where rules are violated together, when it has
    all keys of the strategy.
    """
    if strategy.logic is LogicalOperator.ALL_OF:
        return all(label_key(policy.key, label.key) in current for each in strategy.rules for label in each.labels)
    return bool(rule.labels) and all(current.get(label_key(policy.key, key)) == value for key, value in rule.labels)


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


def _reason(rule: Rule, value: int | None) -> str:
    return f"{rule}: " + (
        "no current value, so the label stays" if value is None else f"the value is {format_quantity(value)}"
    )
