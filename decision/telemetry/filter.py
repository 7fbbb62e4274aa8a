"""dontschedule: no node that violates the pod's policy."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from decision.freshness import kept_while_fresh
from decision.model import Evidence, Facts, Pod, Refusal
from decision.telemetry import link, quantity, readings
from decision.telemetry.known import Readings
from decision.telemetry.policy import FailMode, PolicyKey, Rule, Strategy
from decision.telemetry.rules import holds, violated_by, violates

NAME = "dontschedule"


class TelemetryFilter:
    """A rule on a metric without a current value refuses nothing, unless the policy fails closed."""

    name = NAME

    def refusals(self, pod: Pod, nodes: Sequence[str], facts: Facts) -> Mapping[str, Refusal]:
        policy = link.of(pod, facts)
        strategy = policy and policy.dontschedule
        if not (policy and strategy and strategy.rules):
            return {}
        asked = _Asked(policy.key, strategy, readings.of_rules(strategy.rules, policy, facts))
        refused = kept_while_fresh(asked, lambda: _refused(asked), facts)
        if policy.fail_mode is FailMode.CLOSED:
            refused = {**{node: refusal for node in nodes if (refusal := _unknown(node, asked))}, **refused}
        return {node: refused[node] for node in nodes if node in refused} if refused else {}

    def evidence(self, pod: Pod, nodes: Sequence[str], facts: Facts) -> Evidence:
        policy = link.of(pod, facts)
        strategy = policy and policy.dontschedule
        if not (policy and strategy):
            return Evidence()
        columns = readings.of_rules(strategy.rules, policy, facts)
        measured = {rule.metric: _numbers(column, nodes) for rule, column in zip(strategy.rules, columns, strict=True)}
        return Evidence(measured)


class _Asked(Struct, frozen=True):
    """What the refusals depend on."""

    policy: PolicyKey
    strategy: Strategy
    columns: tuple[Readings, ...]


def _refused(asked: _Asked) -> Mapping[str, Refusal]:
    """Of all nodes that violate, one Refusal a cause."""
    causes: dict[Rule | None, Refusal] = {
        rule: Refusal(NAME, f"telemetry policy {asked.policy}: {rule or asked.strategy}")
        for rule in (None, *asked.strategy.rules)
    }
    return {node: causes[rule] for node, rule in violated_by(asked.strategy, asked.columns).items()}


def _unknown(node: str, asked: _Asked) -> Refusal | None:
    """Why a policy that fails closed refuses the node: what it lacks may be what is violated."""
    values = [column.values.get(node) for column in asked.columns]
    states = [
        None if value is None else violates(value, rule)
        for value, rule in zip(values, asked.strategy.rules, strict=True)
    ]
    if None not in states or not holds(asked.strategy, states, unknown=True):
        return None
    missing = asked.strategy.rules[states.index(None)].metric
    return Refusal(NAME, f"telemetry policy {asked.policy}: no current value of {missing}")


def _numbers(column: Readings, nodes: Sequence[str]) -> Mapping[str, float]:
    return {node: quantity.number(column.values[node]) for node in nodes if node in column.values}
