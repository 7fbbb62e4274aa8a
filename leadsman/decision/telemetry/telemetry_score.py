"""scheduleonmetric: scores nodes by the metric of the policy's first rule.

A measured node has at least 0.1 and an unmeasured one 0, so that it never beats a measured one. `rank`, the default:
from the worst value to the best in equal steps, nodes with equal values alike. `proportional`: by how far the value is
from the worst and the best. Equals puts nodes at the target before all others.
"""

from collections.abc import Mapping, Sequence

from leadsman.decision.columns import Column
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo
from leadsman.decision.telemetry import pod_policy, readings
from leadsman.decision.telemetry.taspolicy import Operator, Rule, Scoring, TasPolicy
from leadsman.kube import quantity
from leadsman.kube.quantity import NANO

NAME = "scheduleonmetric"

MIN_MEASURED_SCORE = 0.1
"""The least value of a measured node: one point of ten."""

MIN_CURRENT_RATIO = 0.5
"""Of the candidates that report the metric. With fewer, those few would attract all pods."""


class TelemetryScore:
    """The score plugin."""

    name = NAME

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        policy, weight = pod_policy.find_policy(pod, inputs), inputs.policy.scores.scheduleonmetric.weight
        rule = _rule(policy)
        if not (weight and policy and rule):
            return None
        current = readings.current(rule.metric, policy, inputs).values
        values = list(map(current.get, nodes))
        unknown = _unknown(nodes, values, rule) if None in values else {}
        neutral = _neutral(len(nodes) - len(unknown), rule, policy, nodes, inputs)
        return PluginScore(NAME, weight, Column(nodes, _scores(values, rule, policy)), unknown, neutral)

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        policy = pod_policy.find_policy(pod, inputs)
        rule = _rule(policy)
        if not (policy and rule):
            return Evidence()
        current = readings.current(rule.metric, policy, inputs).values
        return Evidence({rule.metric: {node: quantity.to_float(current[node]) for node in nodes if node in current}})


def _rule(policy: TasPolicy | None) -> Rule | None:
    strategy = policy and policy.scheduleonmetric
    return strategy.rules[0] if strategy and strategy.rules else None


def _unknown(nodes: Sequence[str], values: Sequence[int | None], rule: Rule) -> Mapping[str, str]:
    reason = f"no current value of {rule.metric}"
    return {node: reason for node, value in zip(nodes, values, strict=True) if value is None}


def _neutral(known: int, rule: Rule, policy: TasPolicy, nodes: Sequence[str], inputs: DecisionInputs) -> str:
    if known and known == len(nodes):
        return ""
    expected = len(readings.reporting_nodes(rule.metric, inputs).intersection(nodes))
    if known and known >= MIN_CURRENT_RATIO * expected:
        return ""
    return (
        f"telemetry policy {policy.key}: only {known} of {expected} nodes have a current {rule.metric};"
        " the metric does not score"
    )


def _scores(values: Sequence[int | None], rule: Rule, policy: TasPolicy) -> Sequence[float]:
    """0.1 .. 1 for each value, 0 for None."""
    if rule.operator is Operator.EQUALS:
        target = rule.target * NANO
        return [0.0 if value is None else 1.0 if value == target else MIN_MEASURED_SCORE for value in values]
    known = sorted({value for value in values if value is not None}, reverse=rule.operator is Operator.LESS_THAN)
    strategy = policy.scheduleonmetric
    by_distance = strategy is not None and strategy.scoring is Scoring.PROPORTIONAL
    by_value = dict(zip(known, _steps(known if by_distance else range(len(known))), strict=True))
    return [0.0 if value is None else by_value[value] for value in values]


def _steps(positions: Sequence[int]) -> Sequence[float]:
    """From 0.1 for the first to 1 for the last, in proportion to the distance from the first. A single one gets 1."""
    span = positions[-1] - positions[0] if positions else 0
    if not span:
        return [1.0] * len(positions)
    return [MIN_MEASURED_SCORE + (1 - MIN_MEASURED_SCORE) * (each - positions[0]) / span for each in positions]
