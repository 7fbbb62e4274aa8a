"""Filters and scores by the telemetry policy that a pod names, in its own namespace, by its label
`telemetry-policy`."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from operator import eq, gt, lt

from leadsman.decision.inputs import DecisionInputs, PolledMetrics, Readings, SnapshotMetrics
from leadsman.decision.model import Evidence, PluginScore, PodInfo, Refusal
from leadsman.decision.telemetry.taspolicy import (
    FailMode,
    LogicalOperator,
    Operator,
    PolicyKey,
    Rule,
    Scoring,
    Strategy,
    TasPolicy,
)
from leadsman.decision.view import Column, View
from leadsman.kube import quantity
from leadsman.kube.names import POLICY_LABEL
from leadsman.kube.quantity import NANO
from leadsman.state.snapshot import NodeState


def named_policy(pod: PodInfo) -> PolicyKey | None:
    """Returns the policy that the pod names; None: it names none."""
    name = pod.labels.get(POLICY_LABEL)
    return PolicyKey(pod.namespace, name) if name else None


def find_policy(pod: PodInfo, inputs: DecisionInputs) -> TasPolicy | None:
    """Returns the valid policy that the pod names; None when it names none, or there is none of that name."""
    key = named_policy(pod)
    return None if key is None else inputs.telemetry.policies.used.get(key)


def is_policy_missing(pod: PodInfo, inputs: DecisionInputs) -> bool:
    """Tells whether the pod names a policy that does not exist; it is then scheduled like a pod without a policy."""
    return named_policy(pod) is not None and find_policy(pod, inputs) is None


def fails_closed(pod: PodInfo, inputs: DecisionInputs) -> bool:
    """Tells whether the pod must be refused when nothing can be decided."""
    policy = find_policy(pod, inputs)
    return policy is not None and policy.dontschedule is not None and policy.fail_mode is FailMode.CLOSED


# Selects a metric's current values from the tables, in their order of precedence.

NO_READINGS = Readings()


def for_rules(rules: Sequence[Rule], policy: TasPolicy, inputs: DecisionInputs) -> tuple[Readings, ...]:
    """Returns the current values of each rule's metric."""
    return tuple(current_readings(rule.metric, policy, inputs) for rule in rules)


def current_readings(metric: str, policy: TasPolicy, inputs: DecisionInputs) -> Readings:
    """Returns the values that the policy may use now, all of one table: two sources' values are never compared."""
    by_table = (_current_in_table(metric, table, policy, inputs) for table in inputs.telemetry.tables)
    return next((readings for readings in by_table if readings.values), NO_READINGS)


def reporting_nodes(metric: str, inputs: DecisionInputs) -> frozenset[str]:
    """Returns the nodes that report the metric in any table, however old the value."""
    return frozenset().union(*(_all_values(metric, table, inputs) for table in inputs.telemetry.tables))


def _current_in_table(
    metric: str, table: PolledMetrics | SnapshotMetrics, policy: TasPolicy, inputs: DecisionInputs
) -> Readings:
    if isinstance(table, PolledMetrics):
        limit = table.max_age_seconds if policy.max_age_seconds is None else policy.max_age_seconds
        return _younger_than(table.columns.get(metric, NO_READINGS), limit, inputs.now)
    fresh = inputs.view().once(("telemetry", metric), lambda: Readings(_agents_values(metric, inputs.view(), True)))
    return fresh if policy.max_age_seconds is None else _reported_within(fresh, policy.max_age_seconds, inputs)


def _younger_than(readings: Readings, limit: float, now: float) -> Readings:
    """Returns the values that are young enough; the same object while all are, so that caches keyed by it hit."""
    read_at = readings.read_at
    if read_at is None or now - readings.oldest_read_at <= limit:
        return readings
    young = {node: value for node, value in readings.values.items() if now - read_at[node] <= limit}
    return Readings(young, read_at)


def _reported_within(fresh: Readings, limit: float, inputs: DecisionInputs) -> Readings:
    nodes = inputs.snapshot.nodes
    ages = ((node, nodes[node].age_seconds(inputs.now)) for node in fresh.values)
    old = {node for node, age in ages if age is None or age > limit}
    if not old:
        return fresh
    return Readings({node: value for node, value in fresh.values.items() if node not in old})


def _all_values(metric: str, table: PolledMetrics | SnapshotMetrics, inputs: DecisionInputs) -> Mapping[str, int]:
    if isinstance(table, PolledMetrics):
        return table.columns.get(metric, NO_READINGS).values
    return _agents_values(metric, inputs.view(), False)


def _agents_values(metric: str, view: View, fresh: bool) -> Mapping[str, int]:
    """Returns the metric's values of all nodes, or of those that are fresh."""

    def value(state: NodeState) -> int | None:
        measured = None if state.hardware is None else state.hardware.values.get(metric)
        return None if measured is None else quantity.from_float(measured)

    values = view.column(("telemetry", metric), lambda states: list(map(value, states)), None)
    known = zip(view.index.nodes, values.tolist(), view.fresh.tolist(), strict=False)
    return {node: value for node, value, is_fresh in known if value is not None and (is_fresh or not fresh)}


# Evaluates rules, which are strict, and strategies on nodes' values.
#
# A node without a current value violates nothing, unless the policy fails closed (FailMode.CLOSED).

COMPARE: Mapping[Operator, Callable[[int, int], bool]] = {
    Operator.EQUALS: eq,
    Operator.LESS_THAN: lt,
    Operator.GREATER_THAN: gt,
}


def violates(value: int, rule: Rule) -> bool:
    """Tells whether the value, in nanos, violates the rule."""
    return COMPARE[rule.operator](value, rule.target * NANO)


def still_violates(value: int, rule: Rule, leave_ratio: float) -> bool:
    """Tells whether a present violation goes on: until the value has come back by 1 - leave_ratio of the target.

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
    """Returns the nodes whose value violates the rule. Inlined: a call for each of 5,000 nodes costs twice as much."""
    target, values = rule.target * NANO, readings.values.items()
    if rule.operator is Operator.GREATER_THAN:
        return {node for node, value in values if value > target}
    if rule.operator is Operator.LESS_THAN:
        return {node for node, value in values if value < target}
    return {node for node, value in values if value == target}


def violations_by_node(strategy: Strategy, readings: Sequence[Readings]) -> dict[str, Rule | None]:
    """Maps node → the first rule that it violates; None: it violates all of them (allOf). readings: of each rule."""
    by_rule = [violating_nodes(rule, column) for rule, column in zip(strategy.rules, readings, strict=True)]
    if strategy.logic is LogicalOperator.ALL_OF:
        return dict.fromkeys(set.intersection(*by_rule) if by_rule else (), None)
    nodes: dict[str, Rule | None] = {}
    for rule, violators in zip(reversed(strategy.rules), reversed(by_rule), strict=True):
        nodes.update(dict.fromkeys(violators, rule))
    return nodes


def strategy_violated(strategy: Strategy, states: Sequence[bool | None], unknown: bool) -> bool:
    """Tells whether a node violates the strategy. states: of each rule; None (no value) counts as `unknown`."""
    counted = [unknown if state is None else state for state in states]
    return bool(counted) and (all(counted) if strategy.logic is LogicalOperator.ALL_OF else any(counted))


# dontschedule: refuses nodes that violate the pod's telemetry policy.

DONTSCHEDULE = "dontschedule"


class TelemetryFilter:
    """Refuses nodes that violate dontschedule. A metric without a current value refuses only if the policy fails
    closed."""

    name = DONTSCHEDULE

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        policy = find_policy(pod, inputs)
        strategy = policy and policy.dontschedule
        if not (policy and strategy and strategy.rules):
            return {}
        columns = for_rules(strategy.rules, policy, inputs)
        key = policy.key
        refused = inputs.view().once((key, strategy), lambda: _violation_refusals(key, strategy, columns), *columns)
        if policy.fail_mode is FailMode.CLOSED:
            by_node = ((node, _fail_closed_refusal(node, key, strategy, columns)) for node in nodes)
            refused = {**{node: refusal for node, refusal in by_node if refusal}, **refused}
        return {node: refused[node] for node in nodes if node in refused} if refused else {}

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        policy = find_policy(pod, inputs)
        strategy = policy and policy.dontschedule
        if not (policy and strategy):
            return Evidence()
        columns = for_rules(strategy.rules, policy, inputs)
        measured = {rule.metric: _numbers(column, nodes) for rule, column in zip(strategy.rules, columns, strict=True)}
        return Evidence(measured)


def _violation_refusals(key: PolicyKey, strategy: Strategy, columns: Sequence[Readings]) -> Mapping[str, Refusal]:
    """Node → why it is refused, for all nodes that violate the strategy; one Refusal for each cause."""
    causes: dict[Rule | None, Refusal] = {
        rule: Refusal(DONTSCHEDULE, f"telemetry policy {key} is violated: {rule or strategy}")
        for rule in (None, *strategy.rules)
    }
    return {node: causes[rule] for node, rule in violations_by_node(strategy, columns).items()}


def _fail_closed_refusal(node: str, key: PolicyKey, strategy: Strategy, columns: Sequence[Readings]) -> Refusal | None:
    """Says why a policy that fails closed refuses the node; None: no missing value could make it a violation."""
    values = [column.values.get(node) for column in columns]
    states = [
        None if value is None else violates(value, rule) for value, rule in zip(values, strategy.rules, strict=True)
    ]
    if None not in states or not strategy_violated(strategy, states, unknown=True):
        return None
    missing = strategy.rules[states.index(None)].metric
    return Refusal(
        DONTSCHEDULE, f"telemetry policy {key}: the node has no current {missing}, and the policy fails closed"
    )


def _numbers(column: Readings, nodes: Sequence[str]) -> Mapping[str, float]:
    return {node: quantity.to_float(column.values[node]) for node in nodes if node in column.values}


# scheduleonmetric: scores nodes by the metric of the policy's first rule.
#
# A measured node has at least 0.1 and an unmeasured one 0, so that it never beats a measured one. `rank`, the
# default: from the worst value to the best in equal steps, nodes with equal values alike. `proportional`: by how far
# the value is from the worst and the best. Equals puts nodes at the target before all others.

SCHEDULEONMETRIC = "scheduleonmetric"

MIN_MEASURED_SCORE = 0.1
"""The least value of a measured node: one point of ten."""

MIN_CURRENT_RATIO = 0.5
"""A metric is scored when this share of the candidates report it. With fewer, those few would attract all pods."""


class TelemetryScore:
    """Scores nodes by the metric that the policy's scheduleonmetric names."""

    name = SCHEDULEONMETRIC

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        policy, weight = find_policy(pod, inputs), inputs.policy.scores.scheduleonmetric.weight
        rule = _rule(policy)
        if not (weight and policy and rule):
            return None
        current = current_readings(rule.metric, policy, inputs).values
        values = list(map(current.get, nodes))
        reason = f"no current value of {rule.metric}"
        unknown = {node: reason for node, value in zip(nodes, values, strict=True) if value is None}
        neutral = _neutral(len(nodes) - len(unknown), rule, policy, nodes, inputs)
        return PluginScore(SCHEDULEONMETRIC, weight, Column(nodes, _scores(values, rule, policy)), unknown, neutral)

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        policy = find_policy(pod, inputs)
        rule = _rule(policy)
        if not (policy and rule):
            return Evidence()
        current = current_readings(rule.metric, policy, inputs).values
        return Evidence({rule.metric: {node: quantity.to_float(current[node]) for node in nodes if node in current}})


def _rule(policy: TasPolicy | None) -> Rule | None:
    strategy = policy and policy.scheduleonmetric
    return strategy.rules[0] if strategy and strategy.rules else None


def _neutral(known: int, rule: Rule, policy: TasPolicy, nodes: Sequence[str], inputs: DecisionInputs) -> str:
    if known and known == len(nodes):
        return ""
    expected = len(reporting_nodes(rule.metric, inputs).intersection(nodes))
    if known and known >= MIN_CURRENT_RATIO * expected:
        return ""
    return (
        f"telemetry policy {policy.key}: only {known} of {expected} nodes have a current {rule.metric};"
        " the metric does not score"
    )


def _scores(values: Sequence[int | None], rule: Rule, policy: TasPolicy) -> Sequence[float]:
    """Returns 0.1 .. 1 for each value, 0 for None."""
    if rule.operator is Operator.EQUALS:
        target = rule.target * NANO
        return [0.0 if value is None else 1.0 if value == target else MIN_MEASURED_SCORE for value in values]
    known = sorted({value for value in values if value is not None}, reverse=rule.operator is Operator.LESS_THAN)
    strategy = policy.scheduleonmetric
    by_distance = strategy is not None and strategy.scoring is Scoring.PROPORTIONAL
    by_value = dict(zip(known, _steps(known if by_distance else range(len(known))), strict=True))
    return [0.0 if value is None else by_value[value] for value in values]


def _steps(positions: Sequence[int]) -> Sequence[float]:
    """Returns steps from 0.1 for the first to 1 for the last, in proportion to the distance from the first. A single
    one gets 1."""
    span = positions[-1] - positions[0] if positions else 0
    if not span:
        return [1.0] * len(positions)
    return [MIN_MEASURED_SCORE + (1 - MIN_MEASURED_SCORE) * (each - positions[0]) / span for each in positions]
