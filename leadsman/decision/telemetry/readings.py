"""A metric's current values, from the tables in their order of precedence."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from leadsman.decision.freshness import cached_while_fresh, fresh_only
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.telemetry import quantity
from leadsman.decision.telemetry.model import PolledMetrics, Readings, SnapshotMetrics
from leadsman.decision.telemetry.taspolicy import Rule, TasPolicy
from leadsman.state.snapshot import NodeState

NO_READINGS = Readings()


def for_rules(rules: Sequence[Rule], policy: TasPolicy, facts: DecisionInputs) -> tuple[Readings, ...]:
    """For each rule."""
    return tuple(current(rule.metric, policy, facts) for rule in rules)


def current(metric: str, policy: TasPolicy, facts: DecisionInputs) -> Readings:
    """The values that the policy may use now, all of one table: two sources' values are never compared."""
    found = (_current_in_table(metric, table, policy, facts) for table in facts.telemetry.tables)
    return next((readings for readings in found if readings.values), NO_READINGS)


def reporting_nodes(metric: str, facts: DecisionInputs) -> frozenset[str]:
    """The nodes that report it in any table, however old."""
    return frozenset().union(*(_all_values(metric, table, facts) for table in facts.telemetry.tables))


def _current_in_table(
    metric: str, table: PolledMetrics | SnapshotMetrics, policy: TasPolicy, facts: DecisionInputs
) -> Readings:
    if isinstance(table, PolledMetrics):
        limit = table.max_age_seconds if policy.max_age_seconds is None else policy.max_age_seconds
        return _younger_than(table.columns.get(metric, NO_READINGS), limit, facts.now)
    fresh = cached_while_fresh(
        ("telemetry", metric), lambda: Readings(fresh_only(_column(metric, facts), facts)), facts
    )
    return fresh if policy.max_age_seconds is None else _reported_within(fresh, policy.max_age_seconds, facts)


def _younger_than(readings: Readings, limit: float, now: float) -> Readings:
    """The same object while all are young enough, so that what was made of it is found again."""
    read_at = readings.read_at
    if read_at is None or now - readings.oldest_read_at <= limit:
        return readings
    young = {node: value for node, value in readings.values.items() if now - read_at[node] <= limit}
    return Readings(young, read_at)


def _reported_within(fresh: Readings, limit: float, facts: DecisionInputs) -> Readings:
    nodes = facts.snapshot.nodes
    ages = ((node, nodes[node].age_seconds(facts.now)) for node in fresh.values)
    old = {node for node, age in ages if age is None or age > limit}
    if not old:
        return fresh
    return Readings({node: value for node, value in fresh.values.items() if node not in old})


def _all_values(metric: str, table: PolledMetrics | SnapshotMetrics, facts: DecisionInputs) -> Mapping[str, int]:
    if isinstance(table, PolledMetrics):
        return table.columns.get(metric, NO_READINGS).values
    return _column(metric, facts)


_NO_VALUES: Mapping[str, int] = MappingProxyType({})


def _column(metric: str, facts: DecisionInputs) -> Mapping[str, int]:
    """Of all nodes, fresh or not."""

    def value(state: NodeState) -> int | None:
        measured = None if state.hardware is None else state.hardware.values.get(metric)
        return None if measured is None else quantity.from_float(measured)

    return facts.cache.per_node(f"telemetry {metric}", None, value, facts.snapshot)
