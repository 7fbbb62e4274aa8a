"""A metric's current values, from the tables in their order of precedence."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from clusterstate.snapshot import NodeState
from decision.freshness import fresh_part, kept_while_fresh
from decision.model import Facts
from decision.telemetry import quantity
from decision.telemetry.known import Agents, Polled, Readings
from decision.telemetry.policy import Rule, TasPolicy

NONE = Readings()


def of_rules(rules: Sequence[Rule], policy: TasPolicy, facts: Facts) -> tuple[Readings, ...]:
    """For each rule."""
    return tuple(current(rule.metric, policy, facts) for rule in rules)


def current(metric: str, policy: TasPolicy, facts: Facts) -> Readings:
    """The values that the policy may use now, all of one table: two sources' values are never compared."""
    found = (_within(metric, table, policy, facts) for table in facts.telemetry.tables)
    return next((readings for readings in found if readings.values), NONE)


def reporting(metric: str, facts: Facts) -> frozenset[str]:
    """The nodes that report it in any table, however old."""
    return frozenset().union(*(_all(metric, table, facts) for table in facts.telemetry.tables))


def _within(metric: str, table: Polled | Agents, policy: TasPolicy, facts: Facts) -> Readings:
    if isinstance(table, Polled):
        limit = table.age_seconds if policy.max_age_seconds is None else policy.max_age_seconds
        return _younger(table.columns.get(metric, NONE), limit, facts.now)
    fresh = kept_while_fresh(("telemetry", metric), lambda: Readings(fresh_part(_column(metric, facts), facts)), facts)
    return fresh if policy.max_age_seconds is None else _reported_within(fresh, policy.max_age_seconds, facts)


def _younger(readings: Readings, limit: float, now: float) -> Readings:
    """The same object while all are young enough, so that what was made of it is found again."""
    read_at = readings.read_at
    if read_at is None or now - readings.oldest <= limit:
        return readings
    young = {node: value for node, value in readings.values.items() if now - read_at[node] <= limit}
    return Readings(young, read_at)


def _reported_within(fresh: Readings, limit: float, facts: Facts) -> Readings:
    nodes = facts.snapshot.nodes
    ages = ((node, nodes[node].age_seconds(facts.now)) for node in fresh.values)
    old = {node for node, age in ages if age is None or age > limit}
    if not old:
        return fresh
    return Readings({node: value for node, value in fresh.values.items() if node not in old})


def _all(metric: str, table: Polled | Agents, facts: Facts) -> Mapping[str, int]:
    if isinstance(table, Polled):
        return table.columns.get(metric, NONE).values
    return _column(metric, facts)


_NO_VALUES: Mapping[str, int] = MappingProxyType({})


def _column(metric: str, facts: Facts) -> Mapping[str, int]:
    """Of all nodes, fresh or not."""

    def value(state: NodeState) -> int | None:
        measured = None if state.hardware is None else state.hardware.values.get(metric)
        return None if measured is None else quantity.of_number(measured)

    return facts.memo.column(f"telemetry {metric}", None, value, facts.snapshot)
