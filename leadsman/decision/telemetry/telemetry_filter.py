"""dontschedule: refuses nodes that violate the pod's telemetry policy."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from leadsman.decision.freshness import cached_while_fresh
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PodInfo, Refusal
from leadsman.decision.telemetry import pod_policy, readings
from leadsman.decision.telemetry.model import Readings
from leadsman.decision.telemetry.rules import strategy_violated, violates, violations_by_node
from leadsman.decision.telemetry.taspolicy import FailMode, PolicyKey, Rule, Strategy
from leadsman.kube import quantity

NAME = "dontschedule"


class TelemetryFilter:
    """The filter plugin. A rule on a metric without a current value refuses nothing, unless the policy fails closed."""

    name = NAME

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        policy = pod_policy.find_policy(pod, inputs)
        strategy = policy and policy.dontschedule
        if not (policy and strategy and strategy.rules):
            return {}
        policy_readings = _PolicyReadings(policy.key, strategy, readings.for_rules(strategy.rules, policy, inputs))
        refused = cached_while_fresh(policy_readings, lambda: _violation_refusals(policy_readings), inputs)
        if policy.fail_mode is FailMode.CLOSED:
            refused = {
                **{node: refusal for node in nodes if (refusal := _fail_closed_refusal(node, policy_readings))},
                **refused,
            }
        return {node: refused[node] for node in nodes if node in refused} if refused else {}

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        policy = pod_policy.find_policy(pod, inputs)
        strategy = policy and policy.dontschedule
        if not (policy and strategy):
            return Evidence()
        columns = readings.for_rules(strategy.rules, policy, inputs)
        measured = {rule.metric: _numbers(column, nodes) for rule, column in zip(strategy.rules, columns, strict=True)}
        return Evidence(measured)


class _PolicyReadings(Struct, frozen=True):
    """What the refusals depend on."""

    policy: PolicyKey
    strategy: Strategy
    columns: tuple[Readings, ...]


def _violation_refusals(policy_readings: _PolicyReadings) -> Mapping[str, Refusal]:
    """Node → why it is refused, for all nodes that violate the strategy; one Refusal for each cause."""
    causes: dict[Rule | None, Refusal] = {
        rule: Refusal(
            NAME, f"telemetry policy {policy_readings.policy} is violated: {rule or policy_readings.strategy}"
        )
        for rule in (None, *policy_readings.strategy.rules)
    }
    return {
        node: causes[rule]
        for node, rule in violations_by_node(policy_readings.strategy, policy_readings.columns).items()
    }


def _fail_closed_refusal(node: str, policy_readings: _PolicyReadings) -> Refusal | None:
    """Why a policy that fails closed refuses the node; None: no missing value could make it a violation."""
    values = [column.values.get(node) for column in policy_readings.columns]
    states = [
        None if value is None else violates(value, rule)
        for value, rule in zip(values, policy_readings.strategy.rules, strict=True)
    ]
    if None not in states or not strategy_violated(policy_readings.strategy, states, unknown=True):
        return None
    missing = policy_readings.strategy.rules[states.index(None)].metric
    return Refusal(
        NAME,
        f"telemetry policy {policy_readings.policy}: the node has no current {missing}, and the policy fails closed",
    )


def _numbers(column: Readings, nodes: Sequence[str]) -> Mapping[str, float]:
    return {node: quantity.to_float(column.values[node]) for node in nodes if node in column.values}
