"""Selects a metric's current values from the tables, in their order of precedence."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from leadsman.decision.freshness import cached_while_fresh, fresh_only
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.telemetry.model import PolledMetrics, Readings, SnapshotMetrics
from leadsman.decision.telemetry.taspolicy import Rule, TasPolicy
from leadsman.kube import quantity
from leadsman.state.snapshot import NodeState

NO_READINGS = Readings()


def for_rules(rules: Sequence[Rule], policy: TasPolicy, inputs: DecisionInputs) -> tuple[Readings, ...]:
    """The current values of each rule's metric."""
    return tuple(current(rule.metric, policy, inputs) for rule in rules)


def current(metric: str, policy: TasPolicy, inputs: DecisionInputs) -> Readings:
    """The values that the policy may use now, all of one table: two sources' values are never compared."""
    by_table = (_current_in_table(metric, table, policy, inputs) for table in inputs.telemetry.tables)
    return next((readings for readings in by_table if readings.values), NO_READINGS)


def reporting_nodes(metric: str, inputs: DecisionInputs) -> frozenset[str]:
    """The nodes that report the metric in any table, however old the value."""
    return frozenset().union(*(_all_values(metric, table, inputs) for table in inputs.telemetry.tables))


def _current_in_table(
    metric: str, table: PolledMetrics | SnapshotMetrics, policy: TasPolicy, inputs: DecisionInputs
) -> Readings:
    if isinstance(table, PolledMetrics):
        limit = table.max_age_seconds if policy.max_age_seconds is None else policy.max_age_seconds
        return _younger_than(table.columns.get(metric, NO_READINGS), limit, inputs.now)
    fresh = cached_while_fresh(
        ("telemetry", metric), lambda: Readings(fresh_only(_column(metric, inputs), inputs)), inputs
    )
    return fresh if policy.max_age_seconds is None else _reported_within(fresh, policy.max_age_seconds, inputs)


def _younger_than(readings: Readings, limit: float, now: float) -> Readings:
    """The values that are young enough; the same object while all are, so that caches keyed by it hit."""
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
    return _column(metric, inputs)


_NO_VALUES: Mapping[str, int] = MappingProxyType({})


def _column(metric: str, inputs: DecisionInputs) -> Mapping[str, int]:
    """The metric's values of all nodes, fresh or not."""

    def value(state: NodeState) -> int | None:
        measured = None if state.hardware is None else state.hardware.values.get(metric)
        return None if measured is None else quantity.from_float(measured)

    return inputs.cache.per_node(f"telemetry {metric}", None, value, inputs.snapshot)
